from __future__ import annotations

from django.urls import path

from billing.views import deposits, documents

urlpatterns = [
    path("billing/deposits/<uuid:intent_id>/", deposits.deposit, name="billing_deposit"),
    path("billing/deposits/<uuid:intent_id>/status/", deposits.deposit_status, name="billing_deposit_status"),
    path("billing/documents/", documents.documents, name="billing_documents"),
    path("billing/documents/<uuid:document_id>/", documents.document, name="billing_document"),
    path(
        "billing/documents/<uuid:document_id>/<slug:form>/",
        documents.document_download,
        name="billing_document_download",
    ),
]
"""The home of billing is marketplace's: its history names jobs."""
