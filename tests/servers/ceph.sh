#!/usr/bin/env bash
# ceph.sh start|start-cluster|stop DIR: Ceph on this machine, with an S3 gateway, for tests.
#
# start          begins afresh in DIR, in about a second, with one monitor and one OSD in memory, and writes
#                DIR/s3.env, lines of NAME=VALUE: the endpoint, keys, and a bucket that exists.
# start-cluster  the same with three OSDs on files and two copies of all data, a manager, an MDS for CephFS, and
#                a second gateway (BUSY_ENDPOINT_URL) that answers 503 SlowDown beyond eight requests at a time.
# stop           ends what was started, by process id, and removes DIR.
#
# Everything listens on 127.0.0.1, on ports that were free. Process ids are in DIR/run/NAME.pid.
#
# Packages: ceph-mon ceph-osd radosgw ceph-common curl; for a cluster also ceph-mgr ceph-mds ceph-fuse
set -euo pipefail

action=$1
mkdir -p "$2"
dir=$(cd "$2" && pwd)
conf=$dir/ceph.conf
key=testkey secret=testsecret12345678 bucket=stoker
osds=1 copies=1 store=memstore
programs=(ceph-mon ceph-osd radosgw radosgw-admin ceph curl)
packages="ceph-mon ceph-osd radosgw ceph-common curl"
if [[ $action == start-cluster ]]; then
  osds=3 copies=2 store=bluestore
  programs+=(ceph-mgr ceph-mds ceph-fuse)
  packages+=" ceph-mgr ceph-mds ceph-fuse"
fi

# Ends the processes that pid files name, if they are still ours.
stop() {
  local file pid mount
  while read -r _ mount _; do
    [[ $mount == "$dir"/* ]] && umount -l "$mount"
  done </proc/mounts
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
for program in "${programs[@]}"; do
  command -v "$program" >/dev/null || {
    echo "ceph.sh: $program is missing: apt-get install $packages" >&2
    exit 1
  }
done
stop
mkdir -p "$dir"/{run,log,mon,mgr,mds}

read -r mon_port s3_port busy_port < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(each.getsockname()[1] for each in sockets))')
fsid=$(</proc/sys/kernel/random/uuid)
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
osd_pool_default_size = $copies
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pgp_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
mon_data_avail_warn = 2
mon_data_avail_crit = 1
# The disks of test machines are fuller than those of clusters; the ratios must rise in this order.
mon_osd_nearfull_ratio = .95
mon_osd_backfillfull_ratio = .96
mon_osd_full_ratio = .97
osd_failsafe_full_ratio = .99
# An OSD that does not answer is marked down within seconds, on the word of one other.
mon_osd_min_down_reporters = 1
osd_heartbeat_interval = 1
osd_heartbeat_grace = 6
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
[mgr]
mgr_data = $dir/mgr
mgr_initial_modules =
[mds]
mds_data = $dir/mds
[osd]
osd_data = $dir/osd.\$id
osd_journal = $dir/osd.\$id/journal
osd_objectstore = $store
osd_crush_initial_weight = 1
osd_memory_target = 1073741824
memstore_device_bytes = 4294967296
bluestore_block_create = true
bluestore_block_size = 21474836480
bluestore_block_db_create = false
bluestore_block_wal_create = false
bluestore_fsck_on_mkfs = false
bluestore_fsck_on_mount = false
osd_class_default_list = *
osd_class_load_list = *
[client]
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
[client.rgw]
rgw_dns_name = localhost
rgw_frontends = beast endpoint=127.0.0.1:$s3_port tcp_nodelay=1
[client.busy]
rgw_frontends = beast endpoint=127.0.0.1:$busy_port tcp_nodelay=1
rgw_scheduler_type = throttler
rgw_max_concurrent_requests = 8
END

monmaptool --create --clobber --fsid "$fsid" --addv a "[v2:127.0.0.1:$mon_port/0]" \
  --set-min-mon-release pacific "$dir/monmap" >/dev/null
ceph-mon -c "$conf" --mkfs -i a --monmap "$dir/monmap"
ceph-mon -c "$conf" -i a
[[ $action == start ]] || ceph-mgr -c "$conf" -i x >/dev/null 2>&1

# What OSDs need is made while the monitor elects itself.
made=()
commands=
for ((i = 0; i < osds; ++i)); do
  osd_id=$(</proc/sys/kernel/random/uuid)
  commands+="osd new $osd_id $i"$'\n'
  mkdir -p "$dir/osd.$i"
  ceph-osd -c "$conf" -i "$i" --mkfs --osd-uuid "$osd_id" >"$dir/log/mkfs.$i" 2>&1 &
  made+=($!)
done
ceph -c "$conf" --name client.admin <<<"$commands" >/dev/null
for ((i = 0; i < osds; ++i)); do
  wait "${made[i]}"
  ceph-osd -c "$conf" -i "$i" >/dev/null 2>>"$dir/log/osd.$i"
done

# Starts the gateway NAME on PORT.
start_gateway() {
  radosgw -c "$conf" --name "client.$1" --pid-file="$dir/run/$1.pid" >/dev/null
  await "S3 gateway" curl -fs -m 2 "http://127.0.0.1:$2/"
}

radosgw-admin -c "$conf" --name client.rgw user create --uid=test --display-name=test \
  --access-key="$key" --secret-key="$secret" >"$dir/log/user" 2>&1
start_gateway rgw "$s3_port"
curl -fsS -m 10 -X PUT -H "x-amz-content-sha256: UNSIGNED-PAYLOAD" --aws-sigv4 aws:amz:us-east-1:s3 --user "$key:$secret" "http://127.0.0.1:$s3_port/$bucket"
if [[ $action == start-cluster ]]; then
  start_gateway busy "$busy_port"
  printf '%s\n' "osd pool create files_index 8" "osd pool create files_data 8" "fs new files files_index files_data" |
    ceph -c "$conf" --name client.admin >/dev/null 2>&1
  ceph-mds -c "$conf" -i a >/dev/null
  await "active MDS" bash -c "ceph -c '$conf' --name client.admin mds stat | grep -q up:active"
fi
cat >"$dir/s3.env" <<END
AWS_ENDPOINT_URL=http://127.0.0.1:$s3_port
AWS_ACCESS_KEY_ID=$key
AWS_SECRET_ACCESS_KEY=$secret
AWS_REGION=us-east-1
BUCKET=$bucket
BUSY_ENDPOINT_URL=http://127.0.0.1:$busy_port
END
