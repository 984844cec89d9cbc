from __future__ import annotations

from django.urls import path

from reliability import views

urlpatterns = [path("provider/performance/", views.performance, name="reliability_performance")]
