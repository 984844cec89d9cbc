from billing.admin import bank, books

__all__ = ["bank", "books"]
