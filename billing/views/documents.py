"""/billing/documents/: one's own receipts and statements, to look at and to download."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.http import PersonRequest
from accounts.selectors import party_of
from billing.documents import FORMATS
from billing.documents.words import TITLES, days_words, line_words, summary
from billing.http import file_response
from billing.models import Document
from billing.selectors.documents import RECEIPTS, STATEMENTS, document_file, document_of, documents_of, facts_of
from billing.selectors.payouts import explorer_link
from core.errors import Invalid, NotFound

KINDS = (*RECEIPTS, *STATEMENTS)
LINES_SHOWN = 200
"""A page, not a file: the CSV has every line."""


@login_required
@require_safe
def documents(request: PersonRequest) -> HttpResponse:
    try:
        rows, cursor = documents_of(party_of(request.user), KINDS, cursor=request.GET.get("cursor", ""))
    except Invalid as error:
        raise Http404 from error
    context = {
        "documents": rows,
        "next_url": f"?cursor={cursor}" if cursor else "",
        "previous_url": request.path if request.GET.get("cursor") else "",
    }
    return render(request, "billing/documents.html", context)


@login_required
@require_safe
def document(request: PersonRequest, document_id: UUID) -> HttpResponse:
    found = _own(request, document_id)
    facts = facts_of(found)
    lines = [
        {"days": days_words(line), "words": line_words(line), "gross_micro": None, "fee_micro": None, **line}
        for line in facts["lines"][:LINES_SHOWN]
    ]
    context = {
        "document": found,
        "title": TITLES[found.kind],
        "facts": facts,
        "sums": summary(facts["lines"]),
        "lines": lines,
        "more": max(0, len(facts["lines"]) - LINES_SHOWN),
        "explorer": explorer_link(facts.get("signature", "")),
        "forms": FORMATS[found.kind],
    }
    return render(request, "billing/document.html", context)


@login_required
@require_safe
def document_download(request: PersonRequest, document_id: UUID, form: str) -> HttpResponse:
    found = _own(request, document_id)
    if form not in FORMATS[found.kind]:
        raise Http404
    return file_response(document_file(found, form))


def _own(request: PersonRequest, document_id: UUID) -> Document:
    try:
        return document_of(party_of(request.user), document_id)
    except NotFound:
        raise Http404 from None
