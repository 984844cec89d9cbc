"""Settings. Only what differs between installations comes from the environment; business numbers live beside their code."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from django.templatetags.static import static
from django.utils.translation import gettext_lazy as _

from core import logs
from gpunex import environment as env

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.text("DATA_DIR", str(BASE_DIR / "var"))).resolve()

# -- What this installation is ----------------------------------------------------------------------------------------
DEMO = env.flag("DEMO", False)
"""Demo mode: simulated GPUs and the local chain are welcome, real ones are refused (core checks enforce it)."""
DEBUG = env.flag("DEBUG", False)
SECRET_KEY = env.text("SECRET_KEY")
ORIGIN = env.text("ORIGIN", "http://127.0.0.1:8000").rstrip("/")
"""Where people reach us; links in mails are made from it and from nothing else."""
OPERATOR_NAME = env.text("OPERATOR_NAME", "GPUnex")
OPERATOR_ADDRESS = env.text("OPERATOR_ADDRESS", "")
"""Who issues receipts and statements, as printed on them; the address on one line."""
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "127.0.0.1,localhost")
CSRF_TRUSTED_ORIGINS = [ORIGIN]
VERSION = "0.1.0"

# -- Apps -------------------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "unfold.apps.BasicAppConfig",  # the plain one: the default would put its own site in place of ours
    "unfold.contrib.filters",
    "unfold.contrib.forms",
    "gpunex.apps.GpunexConfig",
    "marketplace.apps.MarketplaceConfig",
    "reliability.apps.ReliabilityConfig",
    "benchmarks.apps.BenchmarksConfig",
    "providers.apps.ProvidersConfig",
    "billing.apps.BillingConfig",
    "accounts.apps.AccountsConfig",
    "core.apps.CoreConfig",
    "gpunex.apps.GpunexAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.humanize",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "rest_framework",
    "drf_spectacular",
    "django_filters",
    "django_htmx",
    "django_bootstrap5",
    "django_prometheus",
    # Tools for developers, not among the production requirements.
    *(app for app in ("django_linear_migrations", "django_migration_linter") if find_spec(app)),
]

MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "core.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "accounts.middleware.ViewerMiddleware",
    "core.middleware.DomainErrorMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]

ROOT_URLCONF = "gpunex.urls"
WSGI_APPLICATION = "gpunex.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
                "gpunex.context.site",
            ],
            "builtins": ["core.templatetags.gpunex"],
        },
    },
]

# -- Data -------------------------------------------------------------------------------------------------------------
PROCESS = env.text("PROCESS", "web")
_timeout_ms = 5_000 if PROCESS == "web" else 60_000
_app_url = env.text("DATABASE_URL")
DATABASES = {
    # The app role owns nothing and cannot disable a trigger.
    "default": env.database(
        _app_url, name="DATABASE_URL", application=f"gpunex-{PROCESS}", statement_timeout_ms=_timeout_ms
    ),
    # The owner role migrates: manage.py migrate --database owner.
    "owner": env.database(
        env.text("DATABASE_OWNER_URL", _app_url),
        name="DATABASE_OWNER_URL",
        application="gpunex-migrate",
        statement_timeout_ms=0,
    ),
}
DATABASE_ROUTERS: list[str] = []
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = env.text("REDIS_URL")
CACHES = {
    "default": {
        "BACKEND": "core.cache.OptionalCache",
        "LOCATION": REDIS_URL,
        "TIMEOUT": 300,
        # A page that asks a Valkey which does not answer waits this long, not for ever.
        "OPTIONS": {"socket_timeout": 1, "socket_connect_timeout": 1},
    }
}
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": DATA_DIR / "files"}},
    "job_files": {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": DATA_DIR / "jobs"}},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG or DEMO
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}

# -- Composition ------------------------------------------------------------------------------------------------------
NEWS_WIRING = "gpunex.wiring.NEWS"
INVARIANTS = "gpunex.wiring.INVARIANTS"
CLOCK = env.text("CLOCK", "core.clock.SystemClock")
CLOCK_FILE = env.text("CLOCK_FILE", str(DATA_DIR / "clock"))
BELL_SECRET = env.text("BELL_SECRET", SECRET_KEY)
BELL_URL = env.text("BELL_URL", "")
"""Where agents and pages hold their event streams; empty: the same origin (a proxy routes it)."""

AGENT_IMAGE = env.text("AGENT_IMAGE", "")
GUARD_IMAGE = env.text("GUARD_IMAGE", "")
"""Images the installer pulls, by digest (name@sha256:…); empty: this platform offers none, and the installer says so."""
BENCHMARK_IMAGE = env.text("BENCHMARK_IMAGE", "")
"""The benchmark suite (agent/suite/Dockerfile), by digest; empty: hosts with an engine cannot be measured."""

# -- Celery -----------------------------------------------------------------------------------------------------------
CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_DB_REUSE_MAX = 10**9
"""Never by count: a connection per task is a log-in, and a server process that knows no table. gpunex.celery minds its age."""
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_TIME_LIMIT = 600
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 3600,  # above the longest time limit, or a slow job would run beside itself
    # A worker's own reads block for longer than a request may.
    "socket_timeout": 1 if PROCESS == "web" else 5,
    "socket_connect_timeout": 1,
    # A request never waits for a broker that is down: one try, at most a second (core.jobs).
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
    "connect_retries_timeout": 1,
}
CELERY_TASK_PUBLISH_RETRY = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"

# -- Solana -----------------------------------------------------------------------------------------------------------
SOLANA_RPC_URL = env.text("SOLANA_RPC_URL", "")
SOLANA_SECOND_RPC_URL = env.text("SOLANA_SECOND_RPC_URL", SOLANA_RPC_URL)
SOLANA_GENESIS_HASH = env.text("SOLANA_GENESIS_HASH", "")
SOLANA_USDC_MINT = env.text("SOLANA_USDC_MINT", "")
SOLANA_VAULT_OWNER = env.text("SOLANA_VAULT_OWNER", "")
SOLANA_HOT_WALLET = env.text("SOLANA_HOT_WALLET", "")
"""The hot wallet's address: known everywhere; its key file is read by the money worker alone."""
SOLANA_HOT_WALLET_KEY_FILE = env.text("SOLANA_HOT_WALLET_KEY_FILE", "")
SOLANA_SIGNING_JOURNAL = env.text("SOLANA_SIGNING_JOURNAL", "")
"""Where the signer remembers what it signed; empty: beside the key file. No part of a backup: it must never go back in time."""
SOLANA_EXPLORER_URL = env.text("SOLANA_EXPLORER_URL", "")
"""Where a transaction can be looked at; ``{signature}`` stands for it. Empty: no link is shown."""
PAYOUT_SCREENER = env.text("PAYOUT_SCREENER", "billing.services.payouts.screening.LocalListScreener" if DEMO else "")
"""Dotted path of who answers "clear" before money leaves. Without one, nothing is paid."""

# -- Bank ------------------------------------------------------------------------------------------------------------
BANK_SEPA_IBAN = env.text("BANK_SEPA_IBAN", "DE89370400440532013000" if DEMO else "")
"""The euro account that bank payouts leave from (the demo's is the textbook's example). Empty: nobody is paid by bank."""
BANK_SEPA_BIC = env.text("BANK_SEPA_BIC", "COBADEFFXXX" if DEMO else "")
BANK_SEPA_HOLDER = env.text("BANK_SEPA_HOLDER", "GPUnex" if DEMO else "")

# -- Accounts and mail ------------------------------------------------------------------------------------------------
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.ScryptPasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
LOGIN_REDIRECT_URL = "/"
LOGIN_URL = "account_login"
ACCOUNT_ADAPTER = "accounts.adapter.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_EMAIL_NOTIFICATIONS = True  # a mail whenever the password, the address or the second factor changes
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_CONFIRM_EMAIL_ON_GET = False
ACCOUNT_DEFAULT_HTTP_PROTOCOL = ORIGIN.partition(":")[0]
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "GPUnex"
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "GPUnex <no-reply@gpunex.example>")
EMAIL_BACKEND = env.text("EMAIL_BACKEND", "django.core.mail.backends.filebased.EmailBackend")
EMAIL_FILE_PATH = DATA_DIR / "mail"
EMAIL_HOST = env.text("EMAIL_HOST", "localhost")
EMAIL_PORT = env.number("EMAIL_PORT", 25)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_TLS = env.flag("EMAIL_USE_TLS", False)

# -- Web --------------------------------------------------------------------------------------------------------------
SECURE_COOKIES = ORIGIN.startswith("https:")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = SECURE_COOKIES
SESSION_COOKIE_HTTPONLY = True
# In PostgreSQL alone: who is signed in stays so while Valkey is away, and who logged out meanwhile does not come back with it.
SESSION_ENGINE = "django.contrib.sessions.backends.db"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_SSL_REDIRECT = False
SECURE_HSTS_SECONDS = 31_536_000 if SECURE_COOKIES else 0
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "style-src": ["'self'", "'unsafe-inline'"],
        "script-src": ["'self'"],
        "connect-src": ["'self'", *([BELL_URL] if BELL_URL else [])],
        "frame-ancestors": ["'none'"],
        "base-uri": ["'self'"],
        "form-action": ["'self'"],
        "object-src": ["'none'"],
    },
    # The admin's Alpine.js evaluates expressions in attributes; gpunex.admin_site serves it with a policy of its own.
    "EXCLUDE_URL_PREFIXES": ["/admin/"],
}
# A form that came back with an error marks what is wrong, and nothing else.
BOOTSTRAP5 = {"success_css_class": "", "set_placeholder": False}
STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = DEMO or DEBUG

# -- Language and time ------------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = "gpunex.formats"
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

REST_FRAMEWORK = {
    "EXCEPTION_HANDLER": "core.api.errors.exception_handler",
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "GPUnex API",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "gpunex.agent_openapi.agent_paths_add",
    ],
}

UNFOLD = {
    "SITE_TITLE": "GPUnex",
    "SITE_HEADER": _("GPUnex operations"),
    "SITE_URL": "/",
    "SITE_ICON": lambda _request: static("img/mark.svg"),
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda _request: static("img/mark.svg")}],
    "SHOW_HISTORY": False,
    "STYLES": [lambda _request: static("css/admin.css")],
    "SIDEBAR": {"show_search": True, "navigation": "gpunex.admin_navigation.navigation"},
    # Our accent (static/css/tokens.css) in unfold's steps: its light look uses 600 and 700, its dark one 400 and 500.
    "COLORS": {
        "primary": {
            "50": "oklch(97.5% .012 188)",
            "100": "oklch(94.5% .025 188)",
            "200": "oklch(89% .05 188)",
            "300": "oklch(83% .085 188)",
            "400": "oklch(76.8% .11 187)",
            "500": "oklch(65% .11 188)",
            "600": "oklch(49% .082 189)",
            "700": "oklch(43% .072 188)",
            "800": "oklch(37% .06 188)",
            "900": "oklch(31% .05 188)",
            "950": "oklch(23% .035 190)",
        },
    },
}
MIGRATION_LINTER_OPTIONS = {"exclude_apps": ["account", "mfa", "auth", "admin", "contenttypes", "sessions"]}
LOGGING = logs.configure(level=env.text("LOG_LEVEL", "INFO"))
