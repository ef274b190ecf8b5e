# A virtual environment at /usr/local gives the layout of the usual image: python, pip and site-packages are there.
FROM debian:12-slim
ENV PATH=/usr/local/bin:$PATH LANG=C.UTF-8 \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv tzdata netbase \
    && python3 -m venv /usr/local && python -m pip install --no-cache-dir -U pip setuptools wheel \
    && rm -rf /var/lib/apt/lists/*
CMD ["python3"]
