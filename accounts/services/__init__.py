from accounts.services.users import user_register

__all__ = ["user_register"]
