"""Files of receipts and statements, drawn from the facts that were issued: pure, no database, no network, own font."""

from billing.documents.files import CSV, FORMATS, PDF, File, file_of
from billing.documents.sheet import Sheet

__all__ = ["CSV", "FORMATS", "PDF", "File", "Sheet", "file_of"]
