"""Dates as 2026年12月1日"""

DATE_FORMAT = "Y年n月j日"
SHORT_DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = "Y年n月j日, H:i"
SHORT_DATETIME_FORMAT = "Y-m-d H:i"
TIME_FORMAT = "H:i"
