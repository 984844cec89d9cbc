from accounts.models.change import AccountChange
from accounts.models.mail import Mail
from accounts.models.notification import Notification
from accounts.models.party import Party, PartyMember
from accounts.models.user import User

__all__ = ["AccountChange", "Mail", "Notification", "Party", "PartyMember", "User"]
