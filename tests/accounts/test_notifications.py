from __future__ import annotations

from datetime import timedelta
from unittest.mock import patch

import pytest
from django.conf import settings
from django.core import mail

from accounts.models import Mail, Notification, User
from accounts.selectors import party_of, unread_count
from accounts.services import mail_send, mails_forget, mails_sweep, notification_read, notification_send
from core import clock

NOW = clock.now()


def tell(user: User, **given: object) -> Notification:
    fields = {"kind": "tried", "user": user, "context": {"thing": "it"}, "now": NOW} | given
    (row,) = notification_send(**fields)  # type: ignore[arg-type]
    return row


def test_no_text_brings_the_footer_that_every_mail_gets() -> None:
    texts = {path.name: path.read_text() for path in (settings.BASE_DIR / "templates" / "mail").glob("*.txt")}
    assert len(texts) > 20
    assert [name for name, text in texts.items() if "_footer" in text] == []


@pytest.mark.django_db
class TestTelling:
    def test_it_is_stored_and_mailed_once(self, ravi: User, settings: object) -> None:
        row = tell(ravi, url="/jobs/")
        assert unread_count(ravi) == 1
        assert mail_send(mail_id=row.mail_id, now=NOW)
        assert not mail_send(mail_id=row.mail_id, now=NOW)  # the job's twin
        (sent,) = mail.outbox
        assert sent.to == ["ravi@example.com"]
        assert "it & more: http://127.0.0.1:8000/jobs/" in sent.body
        row.mail.refresh_from_db()
        assert row.mail.sent_at == NOW and row.mail.due_at is None and row.mail.sealed is None

    def test_a_party_is_told_through_its_owners(self, ravi: User) -> None:
        (row,) = notification_send(kind="tried", party=party_of(ravi), context={}, now=NOW)
        assert row.user == ravi

    def test_the_job_is_enqueued_after_commit(self, ravi: User, django_capture_on_commit_callbacks: object) -> None:
        with patch("core.jobs._send") as send, django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
            row = tell(ravi)
        send.assert_called_once_with("accounts.mail_send", {"mail_id": str(row.mail_id)})

    def test_a_line_break_cannot_make_a_header(self, ravi: User) -> None:
        row = tell(ravi, context={"thing": "x\r\rBcc: eve@example.com\x00\u2028y"})
        assert mail_send(mail_id=row.mail_id, now=NOW)
        (sent,) = mail.outbox
        assert sent.subject == "Log in x Bcc: eve@example.com y"
        assert sent.recipients() == ["ravi@example.com"]

    def test_a_secret_is_in_the_mail_alone_and_then_forgotten(self, ravi: User) -> None:
        row = tell(ravi, secrets={"token": "gpxe_sesame"})
        row.refresh_from_db()
        assert "sesame" not in row.body and b"sesame" not in bytes(row.mail.sealed) and "••••" in row.inbox_body
        mail_send(mail_id=row.mail_id, now=NOW)
        row.mail.refresh_from_db()
        assert "Token: gpxe_sesame" in mail.outbox[0].body and row.mail.sealed is None

    def test_a_refusing_server_is_tried_again_by_the_sweeper(self, ravi: User) -> None:
        row = tell(ravi)
        with patch("django.core.mail.EmailMessage.send", side_effect=ConnectionRefusedError):
            assert not mail_send(mail_id=row.mail_id, now=NOW)
        assert mails_sweep(now=NOW + timedelta(seconds=299)) == 0
        with patch("accounts.services.mails.clock.now", return_value=NOW + timedelta(seconds=301)):
            assert mails_sweep(now=NOW + timedelta(seconds=301)) == 1
        row.mail.refresh_from_db()
        assert row.mail.attempts == 2 and len(mail.outbox) == 1

    def test_it_gives_up_in_the_end(self, ravi: User) -> None:
        row = tell(ravi)
        Mail.objects.filter(pk=row.mail_id).update(attempts=11)
        with patch("django.core.mail.EmailMessage.send", side_effect=ConnectionRefusedError):
            mail_send(mail_id=row.mail_id, now=NOW)
        row.mail.refresh_from_db()
        assert (row.mail.due_at, row.mail.sent_at, row.mail.sealed) == (None, None, None)

    def test_what_went_out_is_forgotten_and_what_waits_is_not(self, ravi: User) -> None:
        sent, waiting = tell(ravi), tell(ravi)
        mail_send(mail_id=sent.mail_id, now=NOW)
        assert mails_forget(now=NOW + timedelta(days=29)) == 0
        assert mails_forget(now=NOW + timedelta(days=31)) == 1
        sent.refresh_from_db()
        assert sent.mail is None and Mail.objects.get() == waiting.mail

    @pytest.mark.parametrize("url", ["https://evil.example/", "//evil.example/", "jobs/"])
    def test_only_a_path_of_ours_is_linked(self, ravi: User, url: str) -> None:
        with pytest.raises(ValueError, match="path of ours"):
            tell(ravi, url=url)
        assert not Notification.objects.exists()

    def test_somebody_elses_message_stays_unread(self, ravi: User, eve: User) -> None:
        row = tell(ravi)
        notification_read(user=eve, notification_id=row.pk, now=NOW)
        row.refresh_from_db()
        assert row.read_at is None
