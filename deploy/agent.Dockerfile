# The agent of one node. It needs the engine's socket and, for real cards, the NVIDIA driver's library.
FROM python:3.11-slim
ENV PYTHONUNBUFFERED=1
WORKDIR /app
COPY deploy/agent.txt ./
RUN pip install --no-cache-dir --require-hashes -r agent.txt
COPY agentapi agentapi
COPY gpuagent gpuagent
ENTRYPOINT ["python", "-m", "gpuagent"]
