# The server on a machine of one's own: see docs/self-hosting.md.
FROM node:24-slim AS package
WORKDIR /build
COPY . .
RUN npm ci && npm run build && npm pack --pack-destination /

FROM node:24-slim
WORKDIR /opt/throttr-edge
COPY --from=package /throttr-edge-*.tgz ./
RUN npm install --no-fund --no-audit ./throttr-edge-*.tgz workerd@1.20261023.1 \
  && npm cache clean --force \
  && rm throttr-edge-*.tgz \
  && install --directory --owner=node --group=node --mode=0700 /data
USER node
VOLUME /data
EXPOSE 8787
HEALTHCHECK --start-period=30s --interval=10s --timeout=6s \
  CMD ["node", "node_modules/throttr-edge/dist/cli.js", "serve", "--check", "--data", "/data"]
# Flags that are given to `docker run` come behind these.
ENTRYPOINT ["node", "node_modules/throttr-edge/dist/cli.js", "serve", "--json", "--data", "/data", "--http", "0.0.0.0:8787"]
