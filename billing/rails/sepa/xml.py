"""Reading XML from a bank: no document type, no entities, a size cap; names without their namespaces."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from billing.rails.base import FILE_BYTES_MAX, FileRefused

_NAMESPACE = re.compile(r"\{urn:iso:std:iso:20022:tech:xsd:([a-z]{4}\.\d{3}\.\d{3}\.\d{2})\}Document")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_AMOUNT = re.compile(r"\d{1,16}(\.\d{1,5})?")
TEXT_LETTERS = 140


def document_read(data: bytes) -> tuple[str, Element]:
    """The message's name (``camt.053.001.08``) and its root, every tag without its namespace.

    Raises FileRefused: too large, not XML, with a document type or entities, or not an ISO 20022 message.
    """
    if len(data) > FILE_BYTES_MAX:
        raise FileRefused.because(f"{len(data)} bytes", f"at most {FILE_BYTES_MAX}")
    try:
        root = fromstring(data, forbid_dtd=True, forbid_entities=True, forbid_external=True)
    except DefusedXmlException as error:
        raise FileRefused.because("a document type or entities", "plain XML without them") from error
    except (ParseError, ValueError, LookupError) as error:
        raise FileRefused.because(f"no XML: {error}", "a pain.002 or camt.053 file") from error
    named = _NAMESPACE.fullmatch(root.tag)
    if named is None:
        raise FileRefused.because(f"a document {root.tag[:80]}", "an ISO 20022 document")
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return named[1], root


def text_of(element: Element | None, path: str, letters: int = TEXT_LETTERS) -> str:
    """The text at ``path`` on one line, without control characters; empty if there is none."""
    found = None if element is None else element.findtext(path)
    return " ".join(_CONTROL.sub(" ", found or "").split())[:letters]


def text_needed(element: Element, path: str, letters: int = 35) -> str:
    found = text_of(element, path, letters)
    if not found:
        raise FileRefused.because(f"no {path} in {element.tag}", "the standard's required parts")
    return found


def day_of(element: Element, path: str) -> date:
    """``<Dt>`` or ``<DtTm>`` at ``path``, as the day that the bank writes."""
    found = text_of(element, f"{path}/Dt") or text_of(element, f"{path}/DtTm")
    try:
        return datetime.fromisoformat(found).date()
    except ValueError as error:
        raise FileRefused.because(f"{path} {found!r} in {element.tag}", "a date") from error


def cents_of(element: Element, path: str = "Amt") -> tuple[int, str]:
    """(cents, currency) of the amount at ``path``. Raises FileRefused: missing, not a number, more than two decimals."""
    amount = element.find(path)
    found = "" if amount is None else (amount.text or "").strip()
    try:
        value = Decimal(found) if _AMOUNT.fullmatch(found) else None
    except InvalidOperation:
        value = None
    if amount is None or value is None or value * 100 != (value * 100).to_integral_value():
        raise FileRefused.because(f"{path} {found!r} in {element.tag}", "an amount with at most two decimals")
    return int(value * 100), amount.get("Ccy", "")[:3]
