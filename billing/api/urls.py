from __future__ import annotations

from django.urls import path

from billing.api import customer, public

public_urlpatterns = [
    path("billing/balance", public.BalanceView.as_view(), name="billing_balance"),
    path("billing/deposits", public.DepositsView.as_view(), name="billing_deposits"),
    path("billing/deposits/<uuid:intent_id>", public.DepositView.as_view(), name="billing_deposit"),
    path("billing/receipts", public.ReceiptsView.as_view(), name="billing_receipts"),
    path("billing/statements", public.StatementsView.as_view(), name="billing_statements"),
    path("billing/documents/<uuid:document_id>", public.DocumentView.as_view(), name="billing_document"),
    path(
        "billing/documents/<uuid:document_id>/<slug:form>",
        public.DocumentFileView.as_view(),
        name="billing_document_file",
    ),
    path("billing/withdrawals", customer.WithdrawalsView.as_view(), name="billing_withdrawals"),
    path(
        "billing/withdrawals/<uuid:payout_id>/cancel",
        customer.WithdrawalCancelView.as_view(),
        name="billing_withdrawal_cancel",
    ),
    path("billing/claims", customer.ClaimsView.as_view(), name="billing_claims"),
    path("billing/claims/<uuid:claim_id>/proof", customer.ClaimProofView.as_view(), name="billing_claim_proof"),
    path("billing/payouts", public.PayoutsView.as_view(), name="billing_payouts"),
]
