#!/usr/bin/env bash
# Print a directory with what `make s3-test` needs beside the environment: an S3 server (Versity's gateway, built through
# Go's module proxy) and Hadoop's S3 connector for the installed PySpark (through Maven). Both are fetched once, as the
# machine has Go and Maven set up. With --look nothing is fetched. Only the path goes to stdout.
set -euo pipefail
cd "$(dirname "$0")/.."

home="$PWD/build/s3"
server=github.com/versity/versitygw/cmd/versitygw@v1.8.0 # puts with If-None-Match: * have one winner
hadoop=$(basename "$(ls .venv/lib/python3*/site-packages/pyspark/jars/hadoop-client-api-*.jar)" .jar)
connector=org.apache.hadoop:hadoop-aws:${hadoop#hadoop-client-api-}
wanted="$server $connector"

if [ "$(cat "$home/ready" 2>/dev/null)" = "$wanted" ]; then
    echo "$home"
    exit 0
fi
if [ "${1:-}" = --look ]; then
    echo "no S3 server here: \`make s3-server\` fetches one" >&2
    exit 1
fi
for program in go mvn; do
    if ! command -v "$program" >/dev/null; then
        echo "an S3 server cannot be had: $program is not installed" >&2
        exit 1
    fi
done
echo "fetching an S3 server and Hadoop's connector, once: some minutes, 700 MB" >&2
rm -rf "$home"
mkdir -p "$home/jars"
GOBIN="$home" go install "$server" >&2
IFS=: read -r group artifact version <<<"$connector"
cat >"$home/pom.xml" <<XML
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>holdfast</groupId><artifactId>connector</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version>
  </dependency></dependencies>
</project>
XML
mvn -B -q -f "$home/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$home/jars" >&2
echo "$wanted" >"$home/ready"
echo "$home"
