from __future__ import annotations

from django.urls import path

from billing.views import claims, deposits, documents, freezes, withdrawals

urlpatterns = [
    path("billing/deposits/<uuid:intent_id>/", deposits.deposit, name="billing_deposit"),
    path("billing/deposits/<uuid:intent_id>/status/", deposits.deposit_status, name="billing_deposit_status"),
    path("billing/claims/", claims.claims, name="billing_claims"),
    path("billing/claims/wallet/", claims.claim_wallet, name="billing_claim_wallet"),
    path("billing/claims/evidence/", claims.claim_evidence, name="billing_claim_evidence"),
    path("billing/claims/<uuid:claim_id>/prove/", claims.claim_prove, name="billing_claim_prove"),
    path("billing/withdrawals/", withdrawals.withdrawals, name="billing_withdrawals"),
    path("billing/withdrawals/wallet/", withdrawals.wallet, name="billing_withdrawal_wallet"),
    path(
        "billing/withdrawals/<uuid:payout_id>/cancel/", withdrawals.withdrawal_cancel, name="billing_withdrawal_cancel"
    ),
    path("payout-freeze/<str:token>/", freezes.freeze, name="billing_freeze"),
    path("billing/documents/", documents.documents, name="billing_documents"),
    path("billing/documents/<uuid:document_id>/", documents.document, name="billing_document"),
    path(
        "billing/documents/<uuid:document_id>/<slug:form>/",
        documents.document_download,
        name="billing_document_download",
    ),
]
"""The home of billing is marketplace's: its history names jobs."""
