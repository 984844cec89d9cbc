from accounts.services.changes import account_change_record
from accounts.services.mails import mail_queue, mail_send, mails_forget, mails_sweep
from accounts.services.notifications import (
    notification_read,
    notification_send,
    notifications_read_all,
)
from accounts.services.users import party_legal_name_set, user_language_set, user_profile_set, user_register

__all__ = [
    "account_change_record",
    "mail_queue",
    "mail_send",
    "mails_forget",
    "mails_sweep",
    "notification_read",
    "notification_send",
    "notifications_read_all",
    "party_legal_name_set",
    "user_language_set",
    "user_profile_set",
    "user_register",
]
