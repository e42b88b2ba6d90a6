#!/usr/bin/env bash
# nginx.sh start|stop DIR: a web server for the files below DIR/root, for tests.
#
# start  writes DIR/http.env: URL=..., on 127.0.0.1 and a port that was free; TLS_URL=..., the same with TLS, as
#        "localhost", and a certificate for that name alone, which CA_FILE=... vouches for.
# stop   ends what start has started, by process id, and removes DIR.
#
# Packages: nginx-light openssl
set -euo pipefail

action=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)

stop() {
  local pid
  if [[ -s $dir/nginx.pid ]]; then
    pid=$(<"$dir/nginx.pid")
    if tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -- "$dir/nginx.conf"; then
      kill -TERM "$pid" 2>/dev/null || true
    fi
  fi
  rm -rf "$dir"
}

if [[ $action == stop ]]; then
  stop
  exit 0
fi
for program in nginx openssl; do
  command -v "$program" >/dev/null || {
    echo "nginx.sh: $program is missing: apt-get install nginx-light openssl" >&2
    exit 1
  }
done
stop
mkdir -p "$dir/root" "$dir/tmp"
read -r port tls_port < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in sockets))')
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost -keyout "$dir/key.pem" -out "$dir/ca.pem" 2>/dev/null
user=
[[ $(id -u) -ne 0 ]] || user="user root;"  # tests write files with modes of their own
cat >"$dir/nginx.conf" <<END
$user
worker_processes 1;
pid $dir/nginx.pid;
error_log $dir/error.log;
events { worker_connections 512; }
http {
  access_log off;
  sendfile on;
  client_body_temp_path $dir/tmp;
  proxy_temp_path $dir/tmp;
  fastcgi_temp_path $dir/tmp;
  uwsgi_temp_path $dir/tmp;
  scgi_temp_path $dir/tmp;
  server {
    listen 127.0.0.1:$port;
    listen 127.0.0.1:$tls_port ssl;
    ssl_certificate $dir/ca.pem;
    ssl_certificate_key $dir/key.pem;
    root $dir/root;
    location /moved/ { return 302 /; }
    location /moved-here/ { rewrite ^/moved-here/(.*)\$ /\$1 redirect; }
    location /elsewhere/ { return 302 http://localhost:1/; }
    location /whole/ { alias $dir/root/; max_ranges 0; }
  }
}
END
nginx -c "$dir/nginx.conf" -e "$dir/error.log"
cat >"$dir/http.env" <<END
URL=http://127.0.0.1:$port
TLS_URL=https://localhost:$tls_port
CA_FILE=$dir/ca.pem
END
