from billing.admin import bank, books, claims

__all__ = ["bank", "books", "claims"]
