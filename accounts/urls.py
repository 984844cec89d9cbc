from __future__ import annotations

from django.urls import path

from accounts import views

urlpatterns = [
    path("roles/", views.roles, name="accounts_roles"),
    path("account/", views.account, name="accounts_account"),
    path("inbox/", views.inbox, name="accounts_inbox"),
    path("inbox/read/", views.inbox_read_all, name="accounts_inbox_read_all"),
    path("inbox/<uuid:notification_id>/", views.inbox_open, name="accounts_inbox_open"),
    path("language/", views.language, name="accounts_language"),
    path("theme/", views.theme, name="accounts_theme"),
]
