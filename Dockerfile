# A static binary and nothing else but certificates. Build: docker build -t sluice .
#
#   docker run -p 4222:4222 -v sluice:/data sluice
#   docker run -p 4222:4222 -e AWS_ACCESS_KEY_ID -e AWS_SECRET_ACCESS_KEY sluice --store 's3://bucket/prefix?region=eu-central-1'

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
      -ldflags "-s -w ${VERSION:+-X github.com/sluicemq/sluice/internal/version.number=$VERSION}" \
      -o /out/sluice ./cmd/sluice
# The user owns the two folders that it writes to.
RUN mkdir -p /out/data /out/tmp && chmod 1777 /out/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build /out/tmp /tmp
COPY --from=build /out/sluice /sluice
USER 65532:65532
# Without arguments the server stores in ./sluice-data.
WORKDIR /data
VOLUME /data
EXPOSE 4222 8222
ENTRYPOINT ["/sluice"]
