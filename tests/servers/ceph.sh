#!/usr/bin/env bash
# ceph.sh start|stop DIR: a Ceph cluster of one monitor, one OSD in memory and an S3 gateway, for tests.
#
# start  begins afresh in DIR, in about a second, and writes DIR/s3.env, lines of NAME=VALUE: the endpoint, keys,
#        and a bucket that exists. Everything listens on 127.0.0.1, on ports that were free.
# stop   ends what start has started, by process id, and removes DIR.
#
# Packages: ceph-mon ceph-osd radosgw ceph-common curl
set -euo pipefail

action=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
conf=$dir/ceph.conf
key=testkey secret=testsecret12345678 bucket=stoker

# Ends the processes that pid files name, if they are still ours.
stop() {
  local file pid
  for file in "$dir"/run/*.pid; do
    [[ -s $file ]] || continue
    pid=$(<"$file")
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF -- "-c $conf" || continue
    kill -KILL "$pid" 2>/dev/null || true  # nothing here need be kept
  done
  rm -rf "$dir"
}

# Waits for a command to succeed.
await() {
  local what=$1 end=$((SECONDS + 60))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || { echo "ceph.sh: no $what; see $dir/log" >&2; exit 1; }
    sleep 0.02
  done
}

if [[ $action == stop ]]; then
  stop
  exit 0
fi
for program in ceph-mon ceph-osd radosgw radosgw-admin ceph curl; do
  command -v "$program" >/dev/null || {
    echo "ceph.sh: $program is missing: apt-get install ceph-mon ceph-osd radosgw ceph-common curl" >&2
    exit 1
  }
done
stop
mkdir -p "$dir"/{run,log,mon,osd}

read -r mon_port s3_port < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in sockets))')
fsid=$(</proc/sys/kernel/random/uuid)
osd_id=$(</proc/sys/kernel/random/uuid)
# Logs cost a fifth of the small requests.
quiet=$(printf 'debug_%s = 0/0\n' auth mon monc ms osd paxos rgw objecter rados optracker none)

cat >"$conf" <<END
[global]
fsid = $fsid
mon_initial_members = a
mon_host = v2:127.0.0.1:$mon_port/0
public_network = 127.0.0.0/8
cluster_network = 127.0.0.0/8
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv6 = false
ms_bind_msgr1 = false
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
run_dir = $dir/run
admin_socket = $dir/run/\$name.\$pid.asok
pid_file = $dir/run/\$type.\$id.pid
log_file = $dir/log/\$name.log
crash_dir = $dir/log
keyring = /dev/null
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pgp_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
mon_data_avail_warn = 2
mon_data_avail_crit = 1
# A map changes as soon as something is proposed: this is one host.
paxos_propose_interval = 0.02
paxos_min_wait = 0.01
# Without keys there is no "secure" mode, on which radosgw would insist.
ms_mon_client_mode = crc
ms_mon_service_mode = crc
ms_mon_cluster_mode = crc
$quiet
[mon]
mon_data = $dir/mon
mon_cluster_log_file = $dir/log/cluster.log
[osd]
osd_data = $dir/osd
osd_journal = $dir/osd/journal
osd_objectstore = memstore
osd_crush_initial_weight = 1
memstore_device_bytes = 4294967296
osd_class_default_list = *
osd_class_load_list = *
[client.rgw]
rgw_frontends = beast endpoint=127.0.0.1:$s3_port tcp_nodelay=1
rgw_rados_pool_pg_num_min = 8
rgw_run_sync_thread = false
rgw_enable_quota_threads = false
rgw_enable_ops_log = false
rgw_enable_usage_log = false
rgw_data_log_num_shards = 1
rgw_md_log_max_shards = 1
rgw_usage_max_shards = 1
rgw_gc_max_objs = 3
rgw_lc_max_objs = 3
rgw_objexp_hints_num_shards = 3
rgw_num_control_oids = 2
rgw_thread_pool_size = 64
rgw_dynamic_resharding = false
END

monmaptool --create --clobber --fsid "$fsid" --addv a "[v2:127.0.0.1:$mon_port/0]" \
  --set-min-mon-release pacific "$dir/monmap" >/dev/null
ceph-mon -c "$conf" --mkfs -i a --monmap "$dir/monmap"
ceph-mon -c "$conf" -i a
ceph-osd -c "$conf" -i 0 --mkfs --osd-uuid "$osd_id" >"$dir/log/mkfs" 2>&1 &
mkfs=$!
ceph -c "$conf" --name client.admin osd new "$osd_id" 0 >/dev/null
wait "$mkfs"
ceph-osd -c "$conf" -i 0 >/dev/null 2>>"$dir/log/osd"
radosgw-admin -c "$conf" --name client.rgw user create --uid=test --display-name=test \
  --access-key="$key" --secret-key="$secret" >"$dir/log/user" 2>&1
radosgw -c "$conf" --name client.rgw --pid-file="$dir/run/rgw.pid" >/dev/null
await "S3 gateway" curl -fs -m 2 "http://127.0.0.1:$s3_port/"
curl -fsS -m 10 -X PUT -H "x-amz-content-sha256: UNSIGNED-PAYLOAD" --aws-sigv4 aws:amz:us-east-1:s3 --user "$key:$secret" "http://127.0.0.1:$s3_port/$bucket"
cat >"$dir/s3.env" <<END
AWS_ENDPOINT_URL=http://127.0.0.1:$s3_port
AWS_ACCESS_KEY_ID=$key
AWS_SECRET_ACCESS_KEY=$secret
AWS_REGION=us-east-1
BUCKET=$bucket
END
