"""Disputes: frozen, decided once, given back in proportion, whatever became of the provider's part.

3.6 USDC an hour is 1,000 micro a second; the fee is 10 %, so 600 seconds are 600,000 = 540,000 + 60,000.
"""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction

from accounts.models import Notification, User
from billing.models import EarningFreeze, Transfer
from billing.selectors import earnings_of, frozen_of, payable_of, why_not_yet
from billing.selectors.payouts import payable_before
from billing.services import account_open, earnings_mature, service_credit_post, usage_reverse
from core import invariants
from core.errors import Conflict, Denied, Invalid, NotFound
from core.models import StatusEvent
from marketplace.models import Dispute
from marketplace.services import dispute_decide, rental_settle
from tests.factories.cast import person
from tests.factories.concurrency import together
from tests.factories.disputes import books_of, disputed, ran, rental_of, seller
from tests.factories.marketplace import Story, story
from tests.marketplace.conftest import At

HOUR = 3600
DAY = 24 * HOUR


@pytest.mark.django_db
@pytest.mark.usefixtures("books")
class TestOpening:
    def test_it_freezes_what_is_pending_and_writes_to_both(self, ravi: User, at: At) -> None:
        told = ran(ravi, at)
        dispute = disputed(told, ravi, at(700))
        assert (dispute.disputed_micro, dispute.status, dispute.refund_micro) == (600_000, "open", None)
        assert earnings_mature(now=at(30 * DAY)) == 0
        assert books_of(told, ravi) == (-600_000, 540_000, 0, 60_000)
        assert frozen_of(seller(told)).pending_micro == 540_000
        (mine,) = Notification.objects.filter(user=ravi, kind="dispute_opened")
        assert "0.600000 USDC" in mine.body or "0.60 USDC" in mine.body
        (theirs,) = Notification.objects.filter(kind="dispute_opened_provider")
        assert "Much slower than it should have been" in theirs.body
        for text in (theirs.subject, theirs.body):
            assert "Ravi" not in text and "tenth" not in text and str(told.job.pk) not in text

    def test_it_sets_aside_what_has_matured_and_is_still_there(self, ravi: User, at: At) -> None:
        told = ran(ravi, at)
        assert earnings_mature(now=at(8 * DAY)) == 1
        told.attempt.refresh_from_db()
        dispute = _late(told, ravi, at)
        assert (payable_of(seller(told)), frozen_of(seller(told)).payable_micro) == (540_000, 540_000)
        account = account_open(kind="provider_payable", owner=seller(told))
        assert payable_before(account, at(9 * DAY)) == 0
        assert any("dispute" in sentence for sentence in why_not_yet(seller(told), at(9 * DAY)))
        dispute_decide(
            dispute=dispute, refund_micro=0, reason="It ran as listed.", actor=person("Olga"), now=at(9 * DAY)
        )
        account.refresh_from_db()
        assert payable_before(account, at(10 * DAY)) == 540_000

    def test_once_per_attempt_and_the_same_words_are_the_same_dispute(self, ravi: User, at: At) -> None:
        told = ran(ravi, at)
        first = disputed(told, ravi, at(700))
        assert disputed(told, ravi, at(800)) == first
        with pytest.raises(Conflict, match="disputed before"):
            disputed(told, ravi, at(800), words="And it was loud.")
        assert Notification.objects.filter(kind="dispute_opened").count() == 1
        assert EarningFreeze.objects.count() == 1

    def test_the_window_is_72_hours_from_the_end(self, ravi: User, eve: User, at: At) -> None:
        told = ran(ravi, at)
        with pytest.raises(Conflict, match="72 hours"):
            disputed(told, ravi, at(600 + 72 * HOUR + 1))
        assert not Dispute.objects.exists() and not EarningFreeze.objects.exists()
        assert disputed(told, ravi, at(600 + 72 * HOUR)).status == "open"

    def test_what_cannot_be_disputed_says_why_and_nothing_moves(self, ravi: User, eve: User, at: At) -> None:
        told = story(ravi, now=at(0))
        told.agent.observe(told.attempt, "running", at=at(0), elapsed=0)
        with pytest.raises(Conflict, match="not been settled"):
            disputed(told, ravi, at(10))
        told.agent.end(told.attempt, at=at(600), elapsed=600)
        with pytest.raises(Conflict, match="not been settled"):
            disputed(told, ravi, at(601))
        assert rental_settle(rental_id=rental_of(told).pk, now=at(602))
        for changed, field in (
            ({"kind": "ugly"}, "kind"),
            ({"words": "  "}, "words"),
            ({"words": "x" * 2001}, "words"),
        ):
            with pytest.raises(Invalid) as bad:
                disputed(told, ravi, at(700), **changed)
            assert list(bad.value.fields) == [field]
        with pytest.raises(NotFound):
            disputed(told, eve, at(700))
        credited = ran(eve, at, reason="gpu_lost")
        with pytest.raises(Conflict, match="cost nothing"):
            disputed(credited, eve, at(700))
        assert not Dispute.objects.exists() and not EarningFreeze.objects.exists()

    def test_not_more_than_twenty_at_once(self, ravi: User, at: At, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("marketplace.services.disputes.DISPUTES_OPEN_MAX", 1)
        first, second = ran(ravi, at), ran(ravi, at)
        disputed(first, ravi, at(700))
        with pytest.raises(Conflict, match="1 of your disputes"):
            disputed(second, ravi, at(701))


def _late(told: Story, who: User, at: At) -> Dispute:
    """A dispute after the earnings have matured: new providers' wait a week, so the attempt's end is moved."""
    type(told.attempt).objects.filter(pk=told.attempt.pk).update(ended_at=at(8 * DAY))
    told.attempt.refresh_from_db()
    return disputed(told, who, at(8 * DAY + 1))


@pytest.mark.django_db
@pytest.mark.usefixtures("books")
class TestDeciding:
    def test_all_of_it_comes_back_out_of_pending_and_fee(self, ravi: User, olga: User, at: At) -> None:
        told = ran(ravi, at)
        dispute = disputed(told, ravi, at(700))
        decided = dispute_decide(
            dispute=dispute, refund_micro=600_000, reason="Thermal faults.", actor=olga, now=at(900)
        )
        assert (decided.status, decided.refund_micro, decided.partly) == ("granted", 600_000, False)
        assert books_of(told, ravi) == (0, 0, 0, 0)
        assert rental_of(told).credited_micro == 600_000
        earnings_mature(now=at(30 * DAY))
        assert books_of(told, ravi) == (0, 0, 0, 0)
        event = StatusEvent.objects.get(subject_type="marketplace.dispute")
        assert (event.old, event.new, event.actor, event.reason) == (
            "open",
            "granted",
            f"user:{olga.pk}",
            "Thermal faults.",
        )

    def test_a_part_is_borne_in_proportion_by_every_gpu_and_the_fee(self, ravi: User, olga: User, at: At) -> None:
        """Two GPUs, 600 s: 1,200,000 = 540,000 + 540,000 + 120,000. A third of it is 400,001: 360,001 and 40,000."""
        told = ran(ravi, at, gpus=2, gpu_count=2)
        dispute = disputed(told, ravi, at(700))
        dispute_decide(dispute=dispute, refund_micro=400_001, reason="Slow for a while.", actor=olga, now=at(900))
        assert books_of(told, ravi) == (-1_200_000 + 400_001, 1_080_000 - 360_001, 0, 120_000 - 40_000)
        by_gpu = sorted(row.amount_micro for row in earnings_of(seller(told), at(0), at(DAY)).by_gpu)
        assert by_gpu == [540_000 - 180_001, 540_000 - 180_000]

    def test_refused_nothing_moves_and_what_was_frozen_matures(self, ravi: User, olga: User, at: At) -> None:
        told = ran(ravi, at)
        dispute = disputed(told, ravi, at(700))
        dispute_decide(dispute=dispute, refund_micro=0, reason="It ran as listed.", actor=olga, now=at(900))
        assert earnings_mature(now=at(30 * DAY)) == 1
        assert books_of(told, ravi) == (-600_000, 0, 540_000, 60_000)
        assert not Transfer.objects.filter(kind="dispute").exists()
        assert {n.kind for n in Notification.objects.filter(kind__startswith="dispute_decided")} == {
            "dispute_decided",
            "dispute_decided_provider",
        }

    def test_what_a_service_credit_gave_back_is_not_given_twice(self, ravi: User, olga: User, at: At) -> None:
        """Six hours, the last four were credited: 21.6 charged, 14.4 back; the other two hours are disputed."""
        told = ran(ravi, at, seconds=6 * HOUR, reason="gpu_lost", time_limit_s=10 * HOUR)
        assert (rental_of(told).charged_micro, rental_of(told).credited_micro) == (21_600_000, 14_400_000)
        dispute = disputed(told, ravi, at(7 * HOUR))
        assert dispute.disputed_micro == 7_200_000
        with pytest.raises(Invalid) as bad:
            dispute_decide(dispute=dispute, refund_micro=7_200_001, reason="All.", actor=olga, now=at(8 * HOUR))
        assert list(bad.value.fields) == ["refund"]
        dispute_decide(dispute=dispute, refund_micro=7_200_000, reason="All.", actor=olga, now=at(8 * HOUR))
        assert books_of(told, ravi) == (0, 0, 0, 0)

    def test_no_service_credit_follows_a_reversal(self, ravi: User, olga: User, at: At) -> None:
        told = ran(ravi, at)
        dispute = disputed(told, ravi, at(700))
        dispute_decide(dispute=dispute, refund_micro=1, reason="A token.", actor=olga, now=at(900))
        sources = list(rental_of(told).charges.values_list("source", flat=True))
        with pytest.raises(Conflict):
            service_credit_post(source="credit:by-hand", of_sources=sources, amount_micro=600_000, now=at(901))

    def test_the_same_decision_again_changes_nothing_another_is_refused(self, ravi: User, olga: User, at: At) -> None:
        told = ran(ravi, at)
        dispute = disputed(told, ravi, at(700))
        for _twice in range(2):
            dispute_decide(dispute=dispute, refund_micro=100_000, reason="Half.", actor=olga, now=at(900))
        with pytest.raises(Conflict, match="decided this dispute already"):
            dispute_decide(dispute=dispute, refund_micro=0, reason="No.", actor=olga, now=at(901))
        assert Transfer.objects.filter(kind="dispute").count() == 1
        assert Notification.objects.filter(kind="dispute_decided").count() == 1
        assert books_of(told, ravi)[0] == -500_000

    def test_whose_money_it_is_does_not_decide_and_a_reason_is_needed(self, ravi: User, olga: User, at: At) -> None:
        told = ran(ravi, at)
        dispute = disputed(told, ravi, at(700))
        owner = seller(told).members.get().user
        for actor in (ravi, owner):
            with pytest.raises(Denied):
                dispute_decide(dispute=dispute, refund_micro=1, reason="Mine.", actor=actor, now=at(900))
        with pytest.raises(Invalid):
            dispute_decide(dispute=dispute, refund_micro=1, reason=" ", actor=olga, now=at(900))
        dispute.refresh_from_db()
        assert dispute.status == "open"
        assert books_of(told, ravi)[0] == -600_000


@pytest.mark.django_db
@pytest.mark.usefixtures("books")
class TestLaws:
    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE marketplace_dispute SET disputed_micro = 1",
            "UPDATE marketplace_dispute SET words = 'never mind'",
            "UPDATE marketplace_dispute SET status = 'refused', refund_micro = 0, decided_at = now()",
            "UPDATE marketplace_dispute SET status = 'granted', refund_micro = 5, decided_at = now(), reason = 'x'",
            "DELETE FROM marketplace_dispute",
            "TRUNCATE marketplace_dispute",
            "UPDATE billing_earningline SET matured_at = now()",
            "UPDATE billing_earningfreeze SET rental_id = gen_random_uuid()",
            "DELETE FROM billing_earningfreeze",
        ],
    )
    def test_the_database_refuses(self, ravi: User, at: At, statement: str) -> None:
        disputed(ran(ravi, at), ravi, at(700))
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE marketplace_dispute SET refund_micro = 2",
            "UPDATE marketplace_dispute SET status = 'open', refund_micro = NULL, decided_at = NULL",
            "UPDATE marketplace_dispute SET reason = 'other words'",
            "UPDATE billing_earningfreeze SET thawed_at = NULL",
        ],
    )
    def test_a_decision_stays(self, ravi: User, olga: User, at: At, statement: str) -> None:
        dispute = disputed(ran(ravi, at), ravi, at(700))
        dispute_decide(dispute=dispute, refund_micro=1, reason="A token.", actor=olga, now=at(900))
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)

    def test_the_invariant_finds_a_freeze_without_dispute(self, ravi: User, olga: User, at: At) -> None:
        told = ran(ravi, at)
        dispute = disputed(told, ravi, at(700))
        EarningFreeze.objects.filter(source=dispute.source).update(thawed_at=at(701))
        (found,) = [each for each in invariants.check_all() if each.invariant == "disputes_freeze_while_open"]
        assert found.subject == str(dispute.pk)
        dispute_decide(dispute=dispute, refund_micro=0, reason="Closed.", actor=olga, now=at(900))

    def test_a_reversal_is_of_one_customers_charges_and_no_more_than_is_left(
        self, ravi: User, eve: User, at: At
    ) -> None:
        mine, theirs = ran(ravi, at), ran(eve, at)
        sources = [rental_of(told).charges.get().source for told in (mine, theirs)]
        with pytest.raises(Invalid):
            usage_reverse(source="dispute:x", of_sources=sources, amount_micro=1, now=at(700))
        for amount in (0, -1, 600_001):
            with pytest.raises(Invalid):
                usage_reverse(source="dispute:x", of_sources=sources[:1], amount_micro=amount, now=at(700))
        with pytest.raises(NotFound):
            usage_reverse(source="dispute:x", of_sources=["usage:none"], amount_micro=1, now=at(700))


class TestRaces:
    def test_two_operators_at_once_one_decides_and_money_moves_once(self, committed_db: str, at: At) -> None:
        ravi = person("Ravi")
        staff = [person(name, is_staff=True) for name in ("Olga", "Otto", "Oona", "Omar")]
        told = ran(ravi, at)
        dispute = disputed(told, ravi, at(700))

        def decide(number: int) -> object:
            amount = 100_000 * (number + 1)
            return dispute_decide(
                dispute=dispute, refund_micro=amount, reason=f"No. {number}", actor=staff[number], now=at(900)
            )

        results = together(4, decide)
        assert sorted(type(each).__name__ for each in results) == ["Conflict"] * 3 + ["Dispute"]
        dispute.refresh_from_db()
        assert books_of(told, ravi)[0] == -600_000 + (dispute.refund_micro or 0)
        assert Transfer.objects.filter(kind="dispute").count() == 1
        assert invariants.check_all() == []

    def test_opened_by_several_hands_at_once_there_is_one(self, committed_db: str, at: At) -> None:
        ravi = person("Ravi")
        told = ran(ravi, at)
        results = together(4, lambda _number: disputed(told, ravi, at(700)).pk)
        assert len(set(results)) == 1
        assert Notification.objects.filter(kind="dispute_opened").count() == 1

    def test_what_matures_at_the_same_moment_is_kept_one_way_or_the_other(self, committed_db: str, at: At) -> None:
        ravi = person("Ravi")
        told = ran(ravi, at)
        type(told.attempt).objects.filter(pk=told.attempt.pk).update(ended_at=at(8 * DAY))

        def act(number: int) -> object:
            if number % 2:
                return earnings_mature(now=at(8 * DAY))
            return disputed(told, ravi, at(8 * DAY)).pk

        together(4, act)
        found = frozen_of(seller(told))
        assert found.pending_micro + found.payable_micro == 540_000
        assert invariants.check_all() == []
