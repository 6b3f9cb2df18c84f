"""`python -m payaccept.cli`, for where the `payaccept` script is not on the path."""

from payaccept.cli import main

main()
