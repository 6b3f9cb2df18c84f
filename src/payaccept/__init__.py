"""payaccept: payment acceptance over RSA-signed JSON, on one PostgreSQL."""

__version__ = "0.1.0"
