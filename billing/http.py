"""What pages and API share: a file as an answer."""

from __future__ import annotations

from django.http import HttpResponse

from billing.documents import File


def file_response(file: File) -> HttpResponse:
    """A file to keep, never to open in our name: its type is what we say, and it is of one person only."""
    return HttpResponse(
        file.content,
        content_type=file.content_type,
        headers={
            "Content-Disposition": f'attachment; filename="{file.name}"',
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, no-store",
        },
    )
