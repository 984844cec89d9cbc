"""The laws of a customer's own money on its way: what leaves a balance for a wallet, and what leaves suspense for a balance."""

from __future__ import annotations

from django.db.migrations import RunSQL

from core import laws

# Who reserves holds the lock of the customer's account row, so what is read of it here is what will be committed.
WITHDRAWAL = RunSQL(
    """
    CREATE FUNCTION billing_withdrawal_law() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        run_kind text;
        place record;
        taken bigint;
        flown bigint;
        room bigint;
    BEGIN
        SELECT kind INTO run_kind FROM billing_payoutrun WHERE id = NEW.run_id;
        IF (run_kind = 'withdraw') <> (NEW.request_key IS NOT NULL) THEN
            RAISE EXCEPTION 'payout % of a % run: only a withdrawal has a request key, and every one has', NEW.id, run_kind
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        SELECT party_id, purpose INTO place FROM billing_destination WHERE id = NEW.destination_id;
        IF place.party_id <> NEW.party_id
            OR place.purpose <> (CASE run_kind WHEN 'withdraw' THEN 'withdrawal' ELSE 'payout' END) THEN
            RAISE EXCEPTION 'payout % of a % run: its destination is for another party or purpose', NEW.id, run_kind
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF run_kind <> 'withdraw' THEN
            RETURN NEW;
        END IF;
        IF NEW.rail <> 'usdc' THEN
            RAISE EXCEPTION 'withdrawal %: it goes to a wallet, not by %', NEW.id, NEW.rail
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        SELECT coalesce(sum(p.amount) FILTER (WHERE a.kind = 'customer'), 0),
               coalesce(sum(p.amount) FILTER (WHERE a.kind = 'payout_in_flight'), 0) INTO taken, flown
            FROM billing_posting p JOIN billing_account a ON a.id = p.account_id
            WHERE p.transfer_id = NEW.reserve_transfer_id AND a.owner_id = NEW.party_id AND a.asset = NEW.asset;
        IF taken <> -(NEW.amount_micro + NEW.fee_micro) OR flown <> NEW.amount_micro THEN
            RAISE EXCEPTION 'withdrawal % of % and % fee: reserved % from the balance, % in flight',
                NEW.id, NEW.amount_micro, NEW.fee_micro, -taken, flown USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        SELECT balance - held - min_balance INTO room FROM billing_account
            WHERE owner_id = NEW.party_id AND kind = 'customer' AND asset = NEW.asset;
        IF room < 0 THEN
            RAISE EXCEPTION 'withdrawal %: the balance is % short of what is set aside', NEW.id, -room
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_withdrawal_law BEFORE INSERT ON billing_payout
        FOR EACH ROW EXECUTE FUNCTION billing_withdrawal_law();

    CREATE FUNCTION billing_payout_undone() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (
            SELECT 1 FROM billing_posting WHERE transfer_id IN (NEW.reserve_transfer_id, NEW.closing_transfer_id)
            GROUP BY account_id HAVING sum(amount) <> 0
        ) THEN
            RAISE EXCEPTION 'payout %: what its cancelling gives back is not what its reserve took', NEW.id
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_payout_undone BEFORE UPDATE ON billing_payout
        FOR EACH ROW WHEN (NEW.status = 'cancelled') EXECUTE FUNCTION billing_payout_undone();

    CREATE TRIGGER billing_payout_withdrawal_frozen BEFORE UPDATE ON billing_payout
        FOR EACH ROW WHEN (NEW.fee_micro <> OLD.fee_micro OR NEW.request_key IS DISTINCT FROM OLD.request_key)
        EXECUTE FUNCTION core_refuse_change();
    CREATE TRIGGER billing_destination_purpose_frozen BEFORE UPDATE ON billing_destination
        FOR EACH ROW WHEN (NEW.purpose <> OLD.purpose) EXECUTE FUNCTION core_refuse_change();
    CREATE TRIGGER billing_payoutrun_kind_frozen BEFORE UPDATE ON billing_payoutrun
        FOR EACH ROW WHEN (NEW.kind <> OLD.kind) EXECUTE FUNCTION core_refuse_change();
    """,
    """
    DROP TRIGGER billing_payoutrun_kind_frozen ON billing_payoutrun;
    DROP TRIGGER billing_destination_purpose_frozen ON billing_destination;
    DROP TRIGGER billing_payout_withdrawal_frozen ON billing_payout;
    DROP TRIGGER billing_payout_undone ON billing_payout; DROP FUNCTION billing_payout_undone();
    DROP TRIGGER billing_withdrawal_law ON billing_payout; DROP FUNCTION billing_withdrawal_law();
    """,
)

# Money leaves suspense by exactly one door: an accepted claim of the party that gets it, and all of it.
CLAIMED = RunSQL(
    """
    CREATE FUNCTION billing_deposit_law() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        given bigint;
        taken bigint;
    BEGIN
        IF TG_OP = 'INSERT' THEN
            IF NEW.claim_transfer_id IS NOT NULL THEN
                RAISE EXCEPTION 'deposit %: nobody has claimed it before it arrived', NEW.signature
                    USING ERRCODE = 'integrity_constraint_violation';
            END IF;
            RETURN NEW;
        END IF;
        IF OLD.state <> 'suspense' THEN
            RAISE EXCEPTION 'deposit % is % and stays so', OLD.signature, OLD.state
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NEW.state <> 'credited' THEN
            RETURN NEW;
        END IF;
        SELECT coalesce(sum(p.amount) FILTER (WHERE a.kind = 'customer' AND a.owner_id = NEW.party_id), 0),
               coalesce(sum(p.amount) FILTER (WHERE a.kind = 'suspense'), 0) INTO given, taken
            FROM billing_posting p JOIN billing_account a ON a.id = p.account_id
            WHERE p.transfer_id = NEW.claim_transfer_id AND a.asset = 'USDC';
        IF given <> NEW.amount_micro OR taken <> -NEW.amount_micro THEN
            RAISE EXCEPTION 'deposit % of %: % leave suspense, % reach its claimant',
                NEW.signature, NEW.amount_micro, -taken, given USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        IF NOT EXISTS (
            SELECT 1 FROM billing_depositclaim WHERE deposit_id = NEW.id AND party_id = NEW.party_id AND state = 'credited'
        ) THEN
            RAISE EXCEPTION 'deposit %: nobody has proven that it is theirs', NEW.signature
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER billing_deposit_law BEFORE INSERT OR UPDATE ON billing_deposit
        FOR EACH ROW EXECUTE FUNCTION billing_deposit_law();

    CREATE TRIGGER billing_claim_closed_stays BEFORE UPDATE ON billing_depositclaim
        FOR EACH ROW WHEN (OLD.state <> 'open') EXECUTE FUNCTION core_refuse_change();
    """,
    """
    DROP TRIGGER billing_claim_closed_stays ON billing_depositclaim;
    DROP TRIGGER billing_deposit_law ON billing_deposit; DROP FUNCTION billing_deposit_law();
    """,
)

OPERATIONS = [
    WITHDRAWAL,
    CLAIMED,
    laws.frozen_columns(
        "billing_depositclaim",
        ["party_id", "kind", "signature", "address", "text", "expires_at", "evidence", "created_at"],
    ),
    laws.written_once("billing_depositclaim", {"consumed_at": [], "proposed_at": ["proposed_by_id", "reason"]}),
    laws.append_only("billing_foreignpayment"),
]
