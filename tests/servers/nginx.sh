#!/usr/bin/env bash
# nginx.sh start|stop DIR: a web server for the files below DIR/root, for tests.
#
# start  writes DIR/http.env: URL=..., on 127.0.0.1 and a port that was free.
# stop   ends what start has started, by process id, and removes DIR.
#
# Package: nginx-light
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
command -v nginx >/dev/null || { echo "nginx.sh: nginx is missing: apt-get install nginx-light" >&2; exit 1; }
stop
mkdir -p "$dir/root" "$dir/tmp"
port=$(python3 -c '
import socket
print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
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
    root $dir/root;
    location /moved/ { return 302 /; }
    location /moved-here/ { rewrite ^/moved-here/(.*)\$ /\$1 redirect; }
    location /elsewhere/ { return 302 http://localhost:1/; }
    location /whole/ { alias $dir/root/; max_ranges 0; }
  }
}
END
nginx -c "$dir/nginx.conf" -e "$dir/error.log"
echo "URL=http://127.0.0.1:$port" >"$dir/http.env"
