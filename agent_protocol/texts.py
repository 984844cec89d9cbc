"""Sentences of the tables here: English, and marked so that the platform's translators find them."""


def gettext_noop(text: str) -> str:
    """The text itself. GNU gettext collects what is called by this name; whoever shows it translates it."""
    return text
