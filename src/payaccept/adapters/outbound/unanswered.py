"""The failure of an exchange, in words for the merchant."""


class Unanswered(Exception):
    """No answer came; the message says why in a few words."""


class ConnectionClosed(Unanswered):
    """The other side closed the connection before one byte of an answer: it may have closed it before we asked."""
