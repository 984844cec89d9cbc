"""Payouts under torture: workers that are killed anywhere, nodes that lie by omission, blocks that vanish. After each round
every payout has to be on chain exactly once and the books have to be right (``manage.py torture_payouts``, docs/money.md).

It makes its own chain and is given a database of its own; ``stage`` refuses anything else.
"""
