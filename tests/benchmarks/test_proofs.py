"""The challenge on the platform's side: honest hosts pass with lost and repeated requests, and every cheat is met."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from accounts.models import User
from agent.bench.plain import PlainChain, chain_plain
from agent_protocol import challenge
from agent_protocol.messages import BenchCommit, BenchOpen, BenchStart, PlanItem
from benchmarks import selectors, services
from benchmarks.models import Proof, Run, Verdict
from benchmarks.services import requests
from benchmarks.services.proofs import MAX_STARTS
from core.errors import DomainError, NotFound
from providers.models import Machine
from providers.selectors import plan_of
from tests.benchmarks.proving import commit, in_review, opened
from tests.factories.benchmarks import (
    commit_for,
    machine_made,
    opening_for,
    proof_answer,
    proof_made,
    proof_started,
    report_for,
    run_offered,
)

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


def refused(code: str, verb: Callable[[], Any]) -> DomainError:
    """The verb is refused under this code, and nothing has moved."""
    before = list(Proof.objects.order_by("pk").values()), list(Run.objects.order_by("pk").values())
    with pytest.raises(DomainError) as caught:
        verb()
    assert caught.value.code == code
    assert before == (list(Proof.objects.order_by("pk").values()), list(Run.objects.order_by("pk").values()))
    return caught.value


def reported(run: Run, *, now: datetime, **figures: Any) -> Verdict | None:
    services.run_report(machine=run.machine, report=report_for(run, **figures), now=now)
    return selectors.verdict_of([run.gpu_id]).get(run.gpu_id)


# -- Honest hosts -----------------------------------------------------------------------------------------------------


def test_an_honest_answer_is_proven_and_the_run_is_judged(run: Run, now: datetime) -> None:
    proof = proof_made(run, now=now, took=2 * SECOND)
    assert (proof.wrong, proof.decided_at) == (None, now + 2 * SECOND)
    assert len(proof.rows) == len(proof.leaves) == 32
    assert len({round_ for round_, _row in proof.rows}) == 8
    verdict = reported(run, now=now + 3 * SECOND)
    assert verdict is not None
    assert verdict.passed
    assert verdict.reasons == []


def test_every_request_may_be_repeated_and_gets_the_same_answer(run: Run, now: datetime) -> None:
    start = BenchStart(nonce=run.challenge["nonce"], attempt=str(uuid4()))
    first = services.proof_start(machine=run.machine, run_id=run.pk, start=start, now=now)
    again = services.proof_start(machine=run.machine, run_id=run.pk, start=start, now=now + SECOND)
    assert (first.pk, first.seed, first.started_at) == (again.pk, again.seed, again.started_at)
    chain = proof_answer(first)
    one, two = (commit(first, chain, now=now + number * SECOND) for number in (1, 2))
    assert (one.rows, one.committed_at) == (two.rows, two.committed_at)
    opening = opening_for(one, chain)
    assert opened(one, opening, now=now).opened_at == opened(one, opening, now=now + SECOND).opened_at == now
    assert services.proofs_decide(now=now) == 1
    assert services.proofs_decide(now=now) == 0
    assert not services.proof_decide(proof_id=first.pk, now=now)


@pytest.mark.parametrize("report_first", [True, False])
def test_report_and_recomputation_may_come_in_either_order(run: Run, now: datetime, report_first: bool) -> None:
    proof = proof_made(run, now=now, decided=False)
    if report_first:
        assert reported(run, now=now) is None
        assert Run.objects.get(pk=run.pk).status == "reported"
    assert services.proofs_decide(now=now + SECOND) == 1
    if not report_first:
        assert reported(run, now=now) is not None
    run.refresh_from_db()
    assert run.status == "verified"
    assert Verdict.objects.get().passed
    assert Proof.objects.get(pk=proof.pk).wrong is None


def test_a_host_that_was_restarted_begins_anew_with_another_seed(run: Run, now: datetime) -> None:
    first = proof_started(run, now=now)
    chain = commit(first, proof_answer(first), now=now)
    second = proof_started(run, now=now + SECOND)
    assert second.seed != first.seed
    refused("stale_attempt", lambda: opened(first, opening_for(chain, proof_answer(first)), now=now))
    services.proof_open(
        machine=run.machine,
        run_id=run.pk,
        opening=opening_for(commit(second, proof_answer(second), now=now + SECOND), proof_answer(second)),
        now=now + SECOND,
    )
    assert services.proofs_decide(now=now + SECOND) == 1


# -- Cheats -----------------------------------------------------------------------------------------------------------


def forged(proof: Proof, change: Callable[[int, tuple[bytes, ...]], tuple[bytes, ...]]) -> PlainChain:
    """A chain whose leaves were changed round by round, committed to consistently."""
    honest = proof_answer(proof)
    leaves = tuple(change(number, row) for number, row in enumerate(honest.leaves))
    return PlainChain(tuple(challenge.merkle_root(each) for each in leaves), leaves)


def judged(proof: Proof, chain: PlainChain, now: datetime) -> Verdict:
    """The cheat goes all the way, and is judged."""
    committed = commit(proof, chain, now=now)
    opened(committed, opening_for(committed, chain), now=now)
    services.proofs_decide(now=now)
    verdict = reported(Run.objects.get(pk=proof.run_id), now=now)
    assert verdict is not None
    return verdict


def test_rows_that_were_not_computed_lead_to_a_review(run: Run, now: datetime) -> None:
    """Garbage that is committed to consistently: the paths are right, the rows are not."""
    proof = proof_started(run, now=now)
    chain = forged(proof, lambda number, leaves: tuple(bytes([number]) * 32 for _ in leaves))
    assert in_review(judged(proof, chain, now), "proof_wrong")
    assert Proof.objects.get().wrong is not None


def test_one_wrong_row_that_is_opened_is_enough(run: Run, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services.proofs, "openings_choose", lambda n, rounds, random: [(rounds - 1, 3)])
    proof = proof_started(run, now=now)
    chain = forged(proof, lambda number, leaves: (*leaves[:3], bytes(32), *leaves[4:]) if number == 7 else leaves)
    assert in_review(judged(proof, chain, now), "proof_wrong")
    assert Proof.objects.get().wrong == [7, 3]


def test_a_chain_of_rounds_computed_side_by_side_is_refuted(run: Run, now: datetime) -> None:
    """Each round right for a seed that does not follow from the round before."""
    proof = proof_started(run, now=now)
    parts = [
        chain_plain(nonce=run.challenge["nonce"], seed=f"{number:02x}" * 32, n=proof.n, rounds=1)
        for number in range(proof.rounds)
    ]
    chain = PlainChain(tuple(part.roots[0] for part in parts), tuple(part.leaves[0] for part in parts))
    assert in_review(judged(proof, chain, now), "proof_wrong")


def test_rounds_that_were_skipped_are_refuted(run: Run, now: datetime) -> None:
    """One round computed, and said to be all of them."""
    proof = proof_started(run, now=now)
    honest = proof_answer(proof)
    chain = PlainChain((honest.roots[0],) * 8, (honest.leaves[0],) * 8)
    assert in_review(judged(proof, chain, now), "proof_wrong")


def test_an_answer_to_another_run_is_refuted(run: Run, machine: Machine, now: datetime) -> None:
    old = proof_answer(proof_made(run, now=now))
    reported(run, now=now)
    requests.runs_request(gpus=[run.gpu], trigger="retest", now=now)
    again = run_offered(run.gpu, now=now)
    later = now + SECOND
    assert in_review(judged(proof_started(again, now=later), old, later), "proof_wrong")


def test_nothing_can_be_computed_before_the_start(run: Run, now: datetime) -> None:
    """The plan has no seed, and every attempt gets another."""
    _version, items = plan_of(run.machine_id)
    body = PlanItem.parse(items[0]).body
    assert set(body["challenge"]) == {"nonce", "n", "rounds"}
    assert not Proof.objects.exists()
    seeds = {proof_started(run, now=now).seed for _ in range(MAX_STARTS)}
    assert len(seeds) == MAX_STARTS
    assert not any(seed in str(items) for seed in seeds)
    refused("too_many_starts", lambda: proof_started(run, now=now))


def test_rows_are_chosen_after_the_roots_and_differ_each_time(run: Run, now: datetime) -> None:
    chosen = set()
    for number in range(3):
        proof = proof_started(run, now=now + number * SECOND)
        assert proof.rows == []
        chosen.add(str(commit(proof, proof_answer(proof), now=now).rows))
    assert len(chosen) == 3


def test_a_path_to_another_root_is_refused_and_moves_nothing(run: Run, now: datetime) -> None:
    proof = proof_started(run, now=now)
    chain = proof_answer(proof)
    committed = commit(proof, chain, now=now)
    good = opening_for(committed, chain)
    other = PlainChain(chain.roots, tuple(tuple(reversed(leaves)) for leaves in chain.leaves))
    error = refused("invalid", lambda: opened(committed, opening_for(committed, other), now=now))
    assert list(error.fields) == ["openings.0"]
    fewer = BenchOpen(nonce=good.nonce, attempt=good.attempt, openings=good.openings[:-1])
    error = refused("invalid", lambda: opened(committed, fewer, now=now))
    assert list(error.fields) == ["openings"]
    swapped = BenchOpen(nonce=good.nonce, attempt=good.attempt, openings=good.openings[::-1])
    refused("invalid", lambda: opened(committed, swapped, now=now))
    assert opened(committed, good, now=now).opened_at == now


def test_what_is_committed_cannot_be_replaced(run: Run, now: datetime) -> None:
    proof = proof_started(run, now=now)
    refused("not_committed", lambda: opened(proof, BenchOpen(**_names(proof), openings=()), now=now))
    chain = proof_answer(proof)
    short = BenchCommit(**_names(proof), roots=tuple(root.hex() for root in chain.roots[:-1]), product_s=None)
    error = refused("invalid", lambda: services.proof_commit(machine=run.machine, run_id=run.pk, commit=short, now=now))
    assert list(error.fields) == ["roots"]
    commit(proof, chain, now=now)
    other = PlainChain(chain.roots[::-1], chain.leaves)
    refused("already_committed", lambda: commit(proof, other, now=now))


def _names(proof: Proof) -> dict[str, str]:
    return {"nonce": proof.run.challenge["nonce"], "attempt": str(proof.attempt)}


def test_another_machine_and_another_nonce_are_refused_at_every_step(run: Run, ada: User, now: datetime) -> None:
    stranger = machine_made(run.machine.provider, now=now)
    proof = proof_started(run, now=now)
    chain = proof_answer(proof)
    for who, nonce, code in ((stranger, run.challenge["nonce"], "not_found"), (run.machine, "guessed", "stale_token")):
        start = BenchStart(nonce=nonce, attempt=str(uuid4()))
        roots = BenchCommit(
            nonce=nonce, attempt=str(proof.attempt), roots=commit_for(proof, chain.roots).roots, product_s=None
        )
        opening = BenchOpen(nonce=nonce, attempt=str(proof.attempt), openings=())
        common: dict[str, Any] = {"machine": who, "run_id": run.pk}
        refused(code, lambda: services.proof_start(**common, start=start, now=now))  # noqa: B023
        refused(code, lambda: services.proof_commit(**common, commit=roots, now=now))  # noqa: B023
        refused(code, lambda: services.proof_open(**common, opening=opening, now=now))  # noqa: B023
        refused(code, lambda: services.run_on_host_check(**common, nonce=nonce))  # noqa: B023
    with pytest.raises(NotFound):
        services.proof_start(
            machine=run.machine,
            run_id=uuid4(),
            start=BenchStart(nonce="n", attempt=str(uuid4())),
            now=now,
        )


def test_after_the_run_has_ended_nothing_is_taken(run: Run, now: datetime) -> None:
    proof = proof_started(run, now=now)
    chain = proof_answer(proof)
    committed = commit(proof, chain, now=now)
    services.runs_expire(now=now + timedelta(hours=1))
    refused("stale_state", lambda: opened(committed, opening_for(committed, chain), now=now + timedelta(hours=1)))
    refused("stale_state", lambda: proof_started(run, now=now))


def test_figures_without_a_proof_are_refused(run: Run, now: datetime) -> None:
    proof = proof_started(run, now=now)
    refused("unproven", lambda: reported(run, now=now))
    commit(proof, proof_answer(proof), now=now)
    refused("unproven", lambda: reported(run, now=now))
    assert not Verdict.objects.exists()


def withheld(run: Run, now: datetime) -> None:
    """Committed, and then silent."""
    proof = proof_started(run, now=now)
    commit(proof, proof_answer(proof), now=now)
    services.runs_expire(now=now + timedelta(minutes=20))


def test_an_answer_that_is_never_opened_is_a_restart_once_and_a_review_twice(
    run: Run, ada: User, now: datetime
) -> None:
    withheld(run, now)
    assert services.proofs_withheld_review(now=now + timedelta(minutes=20)) == 0
    services.run_retest(gpu=run.gpu, actor=ada, now=now + timedelta(minutes=30))
    withheld(run_offered(run.gpu, now=now + timedelta(minutes=30)), now + timedelta(minutes=30))
    at = now + timedelta(minutes=51)
    assert services.proofs_withheld_review(now=at) == 1
    assert in_review(Verdict.objects.get(), "proof_withheld")
    assert services.proofs_withheld_review(now=at) == 0


def test_an_opened_answer_between_two_silences_accuses_nobody(run: Run, ada: User, now: datetime) -> None:
    withheld(run, now)
    for minutes in (30, 100):
        at = now + timedelta(minutes=minutes)
        services.run_retest(gpu=run.gpu, actor=ada, now=at)
        again = run_offered(run.gpu, now=at)
        if minutes == 30:
            reported(again, now=at)
            requested = Run.objects.filter(status="requested")
            requested.update(not_before=at + timedelta(hours=9), attempt=2)
        else:
            withheld(again, at)
    assert services.proofs_withheld_review(now=now + timedelta(hours=3)) == 0


# -- Time -------------------------------------------------------------------------------------------------------------
