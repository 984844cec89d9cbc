from marketplace.views import earnings, jobs, machines, market, pricing

__all__ = ["earnings", "jobs", "machines", "market", "pricing"]
