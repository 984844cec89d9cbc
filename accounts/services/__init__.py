from accounts.services.notifications import (
    mail_send,
    mails_sweep,
    notification_read,
    notification_send,
    notifications_read_all,
)
from accounts.services.users import user_language_set, user_profile_set, user_register

__all__ = [
    "mail_send",
    "mails_sweep",
    "notification_read",
    "notification_send",
    "notifications_read_all",
    "user_language_set",
    "user_profile_set",
    "user_register",
]
