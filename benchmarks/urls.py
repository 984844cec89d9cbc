from __future__ import annotations

from django.urls import path

from benchmarks import views

urlpatterns = [
    path("provider/benchmarks/", views.benchmarks, name="benchmarks_benchmarks"),
    path("provider/benchmarks/<uuid:gpu_id>/retest/", views.retest, name="benchmarks_retest"),
]
