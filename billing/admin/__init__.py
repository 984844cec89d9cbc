from billing.admin import bank, books, claims, spending

__all__ = ["bank", "books", "claims", "spending"]
