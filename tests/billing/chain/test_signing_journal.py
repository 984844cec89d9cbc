"""The signer's own memory: what it refuses although the message is a proper payout."""

from __future__ import annotations

import json
import multiprocessing
import uuid

import pytest
from solders.hash import Hash
from solders.keypair import Keypair

from billing.chain.errors import KeyFileRefused, PayoutShapeRefused
from billing.chain.keyfile import write_key_file
from billing.chain.signer import KeyFileSigner, SignerPolicy
from billing.chain.signing_journal import DAY_SECONDS, SigningCaps, SigningJournal
from billing.chain.transactions import build_payout_message, token_account_address
from tests.billing.chain.world import USDC, new_wallet

MONDAY = 1_767_571_200


class Bench:
    """A signer with a journal, a key, and a clock that the test moves."""

    def __init__(self, folder, **caps):
        self.now = MONDAY
        self.key, self.mint, self.journal_path = Keypair(), new_wallet(), folder / "signed.jsonl"
        write_key_file(folder / "key.json", self.key)
        hot = str(self.key.pubkey())
        policy = SignerPolicy(
            mint=self.mint, source_account=token_account_address(hot, self.mint), payout_limit_micro=1_000 * USDC
        )
        values = {"day_micro": 500 * USDC, "destination_day_micro": 200 * USDC} | caps
        journal = SigningJournal(self.journal_path, SigningCaps(**values), lambda: self.now)
        self.signer = KeyFileSigner(folder / "key.json", policy, journal)

    def message(self, wallet=None, amount=100, payout_id=None):
        return build_payout_message(
            payout_id=payout_id or uuid.uuid4(),
            hot_wallet=str(self.key.pubkey()),
            mint=self.mint,
            destination_owner=wallet or new_wallet(),
            amount_micro=amount * USDC,
            blockhash=str(Hash.new_unique()),
        )

    def lines(self):
        return self.journal_path.read_text().splitlines() if self.journal_path.exists() else []

    def refuse(self, message):
        before = self.lines()
        with pytest.raises(PayoutShapeRefused) as refusal:
            self.signer.sign(message)
        assert self.lines() == before
        return refusal.value.reason


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def test_it_remembers_before_it_signs_and_signs_the_same_again(bench):
    message = bench.message()
    signature = bench.signer.sign(message)
    assert len(bench.lines()) == 1
    assert bench.signer.sign(message) == signature
    assert len(bench.lines()) == 1
    assert bench.journal_path.stat().st_mode & 0o777 == 0o600


def test_a_payout_is_signed_again_only_when_the_first_cannot_land_any_more(bench):
    payout_id, wallet = uuid.uuid4(), new_wallet()
    bench.signer.sign(bench.message(wallet, payout_id=payout_id))
    bench.now += 59
    assert bench.refuse(bench.message(wallet, payout_id=payout_id)) == "signed_too_soon"
    bench.now += 1
    bench.signer.sign(bench.message(wallet, payout_id=payout_id))


def test_a_payout_never_changes_its_amount_or_destination(bench):
    payout_id, wallet = uuid.uuid4(), new_wallet()
    bench.signer.sign(bench.message(wallet, 100, payout_id))
    bench.now += 10 * DAY_SECONDS
    assert bench.refuse(bench.message(wallet, 101, payout_id)) == "payout_changed"
    assert bench.refuse(bench.message(new_wallet(), 100, payout_id)) == "payout_changed"


def test_a_payout_has_a_limited_number_of_attempts(tmp_path):
    bench = Bench(tmp_path, messages_per_payout=3)
    payout_id, wallet = uuid.uuid4(), new_wallet()
    for _ in range(3):
        bench.signer.sign(bench.message(wallet, payout_id=payout_id))
        bench.now += 100
    assert bench.refuse(bench.message(wallet, payout_id=payout_id)) == "too_many_attempts"


def test_a_day_has_its_cap_and_the_next_one_starts_anew(bench):
    for _ in range(5):
        bench.signer.sign(bench.message())
    assert bench.refuse(bench.message(amount=1)) == "day_cap"
    bench.now += DAY_SECONDS - 1
    assert bench.refuse(bench.message(amount=1)) == "day_cap"
    bench.now += 1
    bench.signer.sign(bench.message())


def test_a_destination_has_its_cap(bench):
    wallet = new_wallet()
    bench.signer.sign(bench.message(wallet, 150))
    assert bench.refuse(bench.message(wallet, 51)) == "destination_day_cap"
    bench.signer.sign(bench.message(wallet, 50))
    bench.signer.sign(bench.message(new_wallet(), 51))


def test_attempts_of_one_payout_count_once(bench):
    payout_id, wallet = uuid.uuid4(), new_wallet()
    for _ in range(4):
        bench.signer.sign(bench.message(wallet, 200, payout_id))
        bench.now += 60
    bench.signer.sign(bench.message(amount=200))
    bench.signer.sign(bench.message(amount=100))
    assert bench.refuse(bench.message(amount=1)) == "day_cap"


def test_a_message_beyond_the_policy_is_not_even_remembered(bench):
    assert bench.refuse(bench.message(amount=1_001)) == "amount_over_limit"
    assert bench.lines() == []


@pytest.mark.parametrize("damage", ["{", "[]\n", "{}\n", '{"at":1}\n', "null\n"])
def test_with_a_damaged_memory_it_signs_nothing(bench, damage):
    bench.signer.sign(bench.message())
    with bench.journal_path.open("a") as file:
        file.write(damage)
    with pytest.raises(KeyFileRefused, match="damaged"):
        bench.signer.sign(bench.message())


def test_a_memory_open_to_others_is_refused(bench):
    bench.signer.sign(bench.message())
    bench.journal_path.chmod(0o640)
    with pytest.raises(KeyFileRefused, match="closed to others"):
        bench.signer.sign(bench.message())


def race(journal, shapes, start, results):
    """One of several processes that sign at the same moment."""
    start.wait()
    signed = 0
    for shape, message in shapes:
        try:
            journal.record(shape, message)
        except PayoutShapeRefused:
            continue
        signed += 1
    results.put(signed)


def signed_at_once(bench, each):
    """Four processes, each trying to have `each` payouts of 100 signed; how many they got together."""
    fork = multiprocessing.get_context("fork")
    start, results = fork.Event(), fork.Queue()
    policy, journal, hot = bench.signer._policy, bench.signer._journal, bench.signer.public_key()
    workers = []
    for _ in range(4):
        messages = [bench.message() for _ in range(each)]
        shapes = [(policy.check(message, hot), message) for message in messages]
        workers.append(fork.Process(target=race, args=(journal, shapes, start, results)))
    for worker in workers:
        worker.start()
    start.set()
    signed = sum(results.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join()
    return signed


def test_without_the_lock_processes_overrun_the_cap(tmp_path, monkeypatch):
    """The control: all have looked before any has written."""
    bench = Bench(tmp_path, day_micro=100 * USDC)
    looked, check = multiprocessing.get_context("fork").Barrier(4, timeout=60), SigningJournal._check

    def check_and_wait(journal, entry):
        check(journal, entry)
        looked.wait()

    monkeypatch.setattr(SigningJournal, "_check", check_and_wait)
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    assert signed_at_once(bench, 1) == 4


def test_processes_that_sign_at_once_keep_the_cap_together(bench):
    assert signed_at_once(bench, 10) == 5
    assert [json.loads(line)["amount_micro"] for line in bench.lines()] == [100 * USDC] * 5


def test_a_memory_that_is_taken_away_stops_the_signer(bench):
    bench.signer.sign(bench.message())
    bench.signer.sign(bench.message())
    bench.journal_path.unlink()
    with pytest.raises(KeyFileRefused, match="shorter"):
        bench.signer.sign(bench.message())
