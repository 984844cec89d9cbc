"""The chain, step by step. Each step says what it saw; the first that sees something else ends the tour."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from tour.guide import Guide, only, usdc
from tour.visitor import NotSeen, Page, Visitor
from tour.wallet import Wallet
from tour.work import ADA, FIRST_WORK

GREETING = "hello from the tour"
DEPOSIT = "25"
RATE = "7.20"
"""USDC per GPU-hour during the tour: 0.002 a second, so that some seconds reach the demo's smallest payout of 0.01."""
JOB_SECONDS = 10
UNSEEN_SECONDS = 3


def sign_up(guide: Guide) -> None:
    """Somebody new signs up, verifies the address by mail, logs in and sees the way to become a provider."""
    name = secrets.token_hex(4)
    address, password = f"tour-{name}@demo.gpunex.example", secrets.token_urlsafe(12)
    visitor = Visitor(guide.url)
    page = visitor.get("/account/signup/")
    visitor.submit(page, page.form("password1"), email=address, password1=password, password2=password)
    guide.saw(f"signed up as {address}")
    mail = guide.until("a mail that verifies the address", lambda: next(iter(guide.outbox.to(address)), None))
    link = re.search(r"https?://\S+/account/confirm-email/\S+", mail.body)
    if link is None:
        raise NotSeen(f"the mail {mail.subject!r} has no link: {mail.body[:300]}")
    page = visitor.get(urlsplit(link[0]).path)
    visitor.submit(page, next(form for form in page.forms if "confirm-email" in (form.action or page.url)))
    visitor = Visitor(guide.url)
    visitor.log_in(address, password)
    visitor.get("/roles/").shows("Apply to Provide GPUs")
    guide.saw("verified by mail, logged in; the roles page offers to provide GPUs")
    guide.visitors["newcomer"] = visitor
    guide.logins["newcomer"] = {"email": address, "password": password}


def apply(guide: Guide) -> None:
    """The newcomer applies with two groups of GPUs; a wrong quantity is refused by name first."""
    visitor = guide.visitors["newcomer"]
    page = visitor.get("/provider/apply/")
    page = visitor.submit(page, page.form("legal_name"), button=("add_group", "1"))
    values = {"legal_name": "Tove Tourist", "ups": "all", "commitment_months": "6"}
    for number, (model, quantity) in enumerate((("l4-24gb", "0"), ("rtx-4090-24gb", "1"))):
        values |= {
            f"group-{number}-gpu_model": model,
            f"group-{number}-quantity": quantity,
            f"group-{number}-host_memory_gb": "64",
            f"group-{number}-upload_gbps": "1",
            f"group-{number}-download_gbps": "1",
            f"group-{number}-availability": "always",
            f"group-{number}-city": "Oslo",
            f"group-{number}-country": "NO",
        }
    refused = visitor.submit(page, page.form("legal_name"), button=("submit", "1"), **values)
    refused.shows("Found 0")
    guide.saw("a quantity of 0 was refused beside its field")
    values["group-0-quantity"] = "2"
    sent = visitor.submit(refused, refused.form("legal_name"), button=("submit", "1"), **values)
    if "/provider/application/" not in sent.url:
        raise NotSeen(f"the application was not taken: {sent.text[:800]}")
    sent.shows("Submitted")
    guide.saw("submitted: 2 × L4 and 1 × RTX 4090 in Oslo")


def approve(guide: Guide) -> None:
    """Olga approves it in the admin; the mail brings the install command and a token."""
    olga = guide.visitor("olga")
    queue = olga.get("/admin/providers/application/").shows("Tove Tourist")
    opened = None
    for link in dict.fromkeys(link for link in queue.links if re.search(r"application/[0-9a-f-]{36}/change", link)):
        page = olga.get(urlsplit(link).path)
        if guide.logins["newcomer"]["email"] in page.text:
            opened = page
    if opened is None:
        raise NotSeen("the application is not in Olga's queue")
    page = olga.get(urlsplit(opened.link("/do/approve/")).path)
    olga.submit(page, page.form("tier"), tier="community", approved_machines="2", reason="Welcome from the tour.")
    address = guide.logins["newcomer"]["email"]
    mail = guide.until(
        "the approval's mail", lambda: next((mail for mail in guide.outbox.to(address) if "gpxe_" in mail.body), None)
    )
    if "/agent | bash" not in mail.body:
        raise NotSeen(f"the mail {mail.subject!r} has no install command")
    guide.visitors["newcomer"].get("/provider/").shows("Connect a machine")
    guide.saw(f"approved; the mail {mail.subject!r} brings the command and a token")


def machine_online(guide: Guide) -> None:
    """Ada's machines are online, confirmed, and their benchmarks have passed."""
    ada = guide.visitor("ada")

    def online() -> list[Any] | None:
        machines = ada.api("provider/machines")
        rows = machines["machines"] if isinstance(machines, dict) else machines
        return rows if len(rows) >= 2 and all(row["status"] == "active" for row in rows) else None

    rows = guide.until("Ada's two machines are active", online)
    page = guide.until(
        "both are online", lambda: _if(ada.get("/provider/"), lambda page: page.text.count("Online") >= 2)
    )
    page.shows("Simulated")
    guide.saw(f"{', '.join(row['name'] for row in rows)}: online, labelled as simulated")
    ada.get("/provider/benchmarks/")
    guide.saw("the benchmarks page shows their figures")


def _if(page: Page, held: Callable[[Page], bool]) -> Page | None:
    return page if held(page) else None


def rate_and_market(guide: Guide) -> None:
    """Ada sets a rate, and her listing appears in the market with it; anybody may look."""
    ada, anybody = guide.visitor("ada"), Visitor(guide.url)
    page = ada.get("/provider/pricing/")
    form = next(
        (form for form in page.forms if form.values.get("model") == ["l4-24gb"] and "rate" in form.values), None
    )
    if form is None:
        raise NotSeen(f"/provider/pricing/ has no rate for Ada's L4: {page.text[:600]}")
    guide.logins["rate before"] = {"rate": form.values["rate"][0]}
    ada.submit(page, form, rate=RATE)

    def listed() -> dict[str, Any] | None:
        for row in anybody.api("market/listings", model="l4-24gb", limit="100")["listings"]:
            if row["provider"] == ADA and row["rate_micro"] == round(float(RATE) * 1_000_000):
                return dict(row)
        return None

    listing = guide.until("Ada's listing is in the market at her rate", listed)
    anybody.get("/market/").shows("L4")
    anybody.get(f"/market/{listing['id']}/").shows(ADA, "Simulated")
    guide.saw(
        f"{listing['model_name']} of {ADA} at {usdc(listing['rate_micro'])} per hour, {listing['gpus_free']} free"
    )
    guide.logins["listing"] = {"id": listing["id"]}


def deposit(guide: Guide) -> None:
    """Ravi opens a deposit, pays it with a wallet on the localnet, and exactly that is credited."""
    ravi = guide.visitor("ravi")
    names = {work.name for work in FIRST_WORK}

    def quiet() -> bool:
        """His first jobs (tour.customers) have come and gone: from here on the tour counts every cent."""
        jobs = ravi.api("jobs")["jobs"]
        here = names <= {job["name"] for job in jobs} or len(jobs) > len(names)
        return here and all(map(_ended, jobs)) and ravi.api("billing/balance")["held_micro"] == 0

    guide.until("Ravi's first jobs have ended", quiet)
    pay_in(guide, "ravi", DEPOSIT, guide.wallet)


def pay_in(guide: Guide, who: str, amount: str, wallet: Wallet) -> None:
    """Somebody pays in whole USDC through the page; returns when it is credited."""
    visitor = guide.visitor(who)
    before = visitor.api("billing/balance")["balance_micro"]
    page = visitor.get("/billing/")
    page = visitor.submit(page, page.form("amount"), amount=amount)
    link = page.by_id.get("pay-link", "").strip()
    if not link.startswith("solana:"):
        raise NotSeen(f"{page.url} shows no payment link: {page.text[:400]}")
    wallet.fill(2 * int(amount) * 1_000_000)
    guide.until("the wallet is filled", lambda: wallet.usdc() >= int(amount) * 1_000_000)
    signature, paid = wallet.pay(link)
    guide.saw(f"paid {usdc(paid)} from {wallet.address}, transaction {signature[:16]}…")
    after = guide.until(
        "the deposit is credited", lambda: _changed(visitor.api("billing/balance")["balance_micro"], before)
    )
    if after != before + paid:
        raise NotSeen(f"the balance went from {before} to {after}, not by {paid}")
    visitor.get(urlsplit(page.url).path).shows("USDC", signature)
    guide.saw(f"balance {usdc(before)} → {usdc(after)}")


def _changed(now: int, before: int) -> int | None:
    return now if now != before else None


def job(guide: Guide) -> None:
    """Ravi runs a container on Ada's listing: log, exit code, cost."""
    ravi = guide.visitor("ravi")
    guide.logins["balance before"] = {"micro": str(ravi.api("billing/balance")["balance_micro"])}
    page = ravi.get(f"/jobs/new/?listing={guide.logins['listing']['id']}")
    page = ravi.submit(
        page,
        page.form("image"),
        name="tour",
        image="python:3.12-slim",
        command=f"sh -c 'echo {GREETING}; sleep {JOB_SECONDS}; echo done'",
        gpu_count="1",
        time_limit_s="0.1",
    )
    found = re.search(r"/jobs/([0-9a-f-]{36})/", page.url)
    if found is None:
        raise NotSeen(f"the job was not taken: {page.text[:800]}")
    job_id = found[1]
    guide.saw(f"submitted job {job_id}")
    ended = guide.until("the job ends", lambda: _ended(ravi.api(f"jobs/{job_id}")))
    attempt = ended["attempts"][-1]
    if (ended["status"], attempt["exit_code"]) != ("succeeded", 0):
        raise NotSeen(f"the job ended as {ended['status']} ({ended['reason']}), exit code {attempt['exit_code']}")
    log = guide.until("the log is complete", lambda: _log(ravi, job_id))
    ravi.get(f"/jobs/{job_id}/").shows(GREETING, "done")
    guide.saw(f"succeeded with exit code 0 on {attempt['provider']}; the log says {log.splitlines()[0]!r}")
    guide.logins["job"] = {"id": job_id}


def _ended(job: dict[str, Any]) -> dict[str, Any] | None:
    return job if job["status"] in ("succeeded", "failed", "cancelled", "lost") else None


def _log(visitor: Visitor, job_id: str) -> str | None:
    text = str(visitor.api(f"jobs/{job_id}/log")["text"])
    return text if GREETING in text and "done" in text else None


def usage(guide: Guide) -> None:
    """The ledger charged the seconds that ran, once, and set nothing aside any more."""
    ravi = guide.visitor("ravi")
    job_id, before = guide.logins["job"]["id"], int(guide.logins["balance before"]["micro"])

    def settled() -> dict[str, Any] | None:
        attempt = ravi.api(f"jobs/{job_id}")["attempts"][-1]
        balance = ravi.api("billing/balance")
        return {**balance, **attempt} if balance["balance_micro"] != before and balance["held_micro"] == 0 else None

    found = guide.until("the usage is charged and the hold released", settled)
    charged = found["charged_micro"]
    expected = found["rate_micro"] * found["billed_seconds"] // 3600
    if charged != expected or before - found["balance_micro"] != charged:
        raise NotSeen(f"charged {charged}, expected {expected}; the balance fell by {before - found['balance_micro']}")
    # Seconds count from the first report that it runs, so the first ones may be the customer's gain.
    if not JOB_SECONDS - UNSEEN_SECONDS <= found["billed_seconds"] <= JOB_SECONDS + 20:
        raise NotSeen(f"{found['billed_seconds']} seconds were billed for a job of {JOB_SECONDS}")
    row = only(
        [row for row in ravi.api("billing/history")["history"] if row["amount_micro"] == -charged], "ledger line"
    )
    ravi.get("/billing/").shows("USDC")
    guide.saw(
        f"{found['billed_seconds']} s at {usdc(found['rate_micro'])} = {usdc(charged)}; ledger line {row['kind']}"
    )
    guide.logins["charged"] = {"micro": str(charged)}


def earnings(guide: Guide) -> None:
    """Ada's earnings show the charge less the fee."""
    ada, charged = guide.visitor("ada"), int(guide.logins["charged"]["micro"])
    ada.get("/provider/earnings/").shows("By GPU")
    money = ada.api("billing/payouts")
    total = money["pending_micro"] + money["payable_micro"] + money["in_flight_micro"]
    share = charged - charged // 10
    if total < share - 1:
        raise NotSeen(f"Ada has {total}, which is less than her share {share} of {charged}")
    guide.saw(f"payable {usdc(money['payable_micro'])}, pending {usdc(money['pending_micro'])}")


def payout(guide: Guide) -> None:
    """Ada proves a wallet; Olga plans a run; the wallet holds exactly what was paid; a second run pays nothing."""
    ada, olga, wallet = guide.visitor("ada"), guide.visitor("olga"), guide.wallet
    _prove_wallet(guide, ada)
    guide.until(
        "the earnings have matured",
        lambda: ada.api("billing/payouts")["payable_micro"] >= 10_000 or None,
    )
    payable, held = ada.api("billing/payouts")["payable_micro"], wallet.usdc()
    known = {row["id"] for row in ada.api("billing/payouts")["payouts"]}
    as_of = _next_unplanned_monday(ada)
    _plan(olga, as_of)

    def settled() -> dict[str, Any] | None:
        fresh = [row for row in ada.api("billing/payouts")["payouts"] if row["id"] not in known]
        return next((row for row in fresh if row["status"] == "settled"), None)

    paid = guide.until(f"the run of {as_of} has paid Ada", settled)
    # Other customers rent from Ada too: between looking and planning some more may have become payable.
    if paid["amount_micro"] < payable:
        raise NotSeen(f"paid {paid['amount_micro']}, payable was {payable}")
    got = wallet.usdc() - held
    if got != paid["amount_micro"]:
        raise NotSeen(f"the wallet got {got}, the payout says {paid['amount_micro']}")
    guide.saw(f"{usdc(got)} on chain at {wallet.address}, transaction {paid['signature'][:16]}…")
    _plan(olga, as_of)
    again = ada.api("billing/payouts")
    if wallet.usdc() - held != got or again["in_flight_micro"] != 0:
        raise NotSeen("planning the same day again paid again")
    guide.saw("planning the same day again pays nothing")


def _prove_wallet(guide: Guide, ada: Visitor) -> None:
    wallet = guide.wallet
    page = ada.get("/provider/earnings/")
    if wallet.address in page.text:
        guide.saw(f"the wallet {wallet.address} was proven before")
        return
    form = next(form for form in page.forms if "address" in form.values and "signature" not in form.values)
    page = ada.submit(page, form, address=wallet.address)
    challenge = page.by_id.get("challenge", "")
    if wallet.address not in challenge:
        raise NotSeen(f"no challenge names the wallet: {page.text[:600]}")
    page = ada.submit(page, page.form("signature"), signature=wallet.sign(challenge))
    page.shows(wallet.address)
    guide.saw(f"proved the wallet {wallet.address} by signing a text of {len(challenge)} characters")


def _next_unplanned_monday(ada: Visitor) -> date:
    """The demo may plan days to come: the first Monday that covers today and has not been paid yet."""
    today = datetime.now(UTC).date()
    monday = today + timedelta(days=7 - today.weekday())
    paid = {date.fromisoformat(row["period_end"]) for row in ada.api("billing/payouts")["payouts"]}
    while any(monday <= end for end in paid):
        monday += timedelta(days=7)
    return monday


def _plan(olga: Visitor, as_of: date) -> None:
    page = olga.get("/admin/billing/payoutrun/plan/")
    page = olga.submit(page, page.form("as_of"), as_of=as_of.isoformat())
    if page.url.endswith("/plan/"):
        raise NotSeen(f"the run was not planned: {page.text[-400:]}")


def score(guide: Guide) -> None:
    """Heartbeats become a score that Ada sees, part by part."""
    ada = guide.visitor("ada")
    page = ada.get("/provider/performance/")
    guide.saw(f"the performance page says: {page.text[page.text.find('eliab') - 1 :][:120]}…")


def put_back(guide: Guide) -> None:
    """Ada's rate is what it was before the tour."""
    ada = guide.visitor("ada")
    page = ada.get("/provider/pricing/")
    form = next(form for form in page.forms if form.values.get("model") == ["l4-24gb"] and "rate" in form.values)
    before = guide.logins["rate before"]["rate"]
    ada.submit(page, form, rate=before)
    guide.saw(f"Ada asks {before} USDC per GPU-hour again")


STEPS: tuple[Callable[[Guide], None], ...] = (
    sign_up,
    apply,
    approve,
    machine_online,
    rate_and_market,
    deposit,
    job,
    usage,
    earnings,
    payout,
    score,
    put_back,
)
