# The platform's image: web, doorbell, worker and beat differ only in their command.
FROM python:3.11-slim-bookworm
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /app
COPY requirements.txt .
RUN pip install --no-cache-dir --require-hashes -r requirements.txt \
    && useradd --system --home-dir /data --create-home gpunex \
    && install --directory --owner gpunex --mode 0700 /signing
COPY manage.py ./
COPY core core
COPY agent_protocol agent_protocol
COPY agent/install.sh agent/install.sh
COPY accounts accounts
COPY billing billing
COPY providers providers
COPY benchmarks benchmarks
COPY reliability reliability
COPY marketplace marketplace
COPY gpunex gpunex
COPY templates templates
COPY static static
COPY locale locale
USER gpunex
ENV DATA_DIR=/data DJANGO_SETTINGS_MODULE=gpunex.settings
EXPOSE 8000
CMD ["granian", "--interface", "wsgi", "--host", "0.0.0.0", "--port", "8000", "--blocking-threads", "4", \
     "--backpressure", "64", "--no-ws", "gpunex.wsgi:application"]
