# The control plane: web, worker, beat, and the commands of manage.py.
FROM python:3.11-slim
ENV PYTHONUNBUFFERED=1 DJANGO_SETTINGS_MODULE=aistation.settings.prod
RUN useradd --uid 1000 --create-home aistation && \
    mkdir -p /var/lib/aistation/gateway && chown -R aistation: /var/lib/aistation
WORKDIR /app
COPY requirements.txt ./
RUN pip install --no-cache-dir --require-hashes -r requirements.txt
COPY assets assets
COPY deploy deploy
RUN python deploy/fetch_assets.py
COPY manage.py ./
COPY scheduler scheduler
COPY agentapi agentapi
COPY aistation aistation
COPY templates templates
COPY static static
COPY locale locale
RUN python deploy/compile_messages.py && \
    AISTATION_SECRET_KEY=- AISTATION_DATABASE_URL=postgres://- AISTATION_REDIS_URL=redis://- \
    python manage.py collectstatic --noinput --verbosity 0
USER 1000:1000
CMD ["uvicorn", "aistation.asgi:application", "--host", "0.0.0.0", "--port", "8080", "--lifespan", "off", \
     "--no-access-log", "--no-server-header", "--forwarded-allow-ips", "*", "--timeout-graceful-shutdown", "5"]
