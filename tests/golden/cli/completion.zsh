#compdef stoker
# zsh completion for stoker, written by `stoker completion zsh`.

_stoker() {
  local curcontext="$curcontext" state line
  local -a commands=(
    'bench:Measure storage the way training uses it.'
    'cache:List, check and clear a cache of remote shards.'
    'cat:Print a sample, or one field of it.'
    'checkpoint:List, check, compare, import, export, annotate, pin and prune checkpoints.'
    'completion:Print a script with which a shell completes commands and options.'
    'convert:Convert shards from one format to another.'
    'cp:Copy files between directories, buckets and web servers.'
    'doctor:Find what slows down or endangers training on this machine, and how to fix it.'
    'help:Show this help, or that of a command: stoker help bench disk.'
    'index:Build or show the index of a dataset, which locates every sample.'
    'ls:List the samples of a dataset.'
    'pack:Turn files into large shards, with checksums and an index.'
    'plan:Calculate what storage must do, and what it costs, before it is bought or a job is started.'
    'stage:Bring the shards of a dataset into a cache on this machine.'
    'stats:Show what is in a dataset: sizes, fields, classes, tokens.'
    'stream:Run the loader over a dataset: print rates and waits, or the keys in order.'
    'tune:Find the loader'\''s threads, depth and policy for this machine, by measuring.'
    'verify:Check every byte of a dataset, and list what is damaged.'
  )
  _arguments -C \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--json[With --version: print one JSON object.]' \
    '--version[Print the version, what it was built from and with, and the engine.]' \
    '1:command:->command' \
    '*::argument:->argument'
  case $state in
  command) _describe command commands ;;
  argument)
    case $words[1] in
    bench) _stoker_bench ;;
    cache) _stoker_cache ;;
    cat) _stoker_cat ;;
    checkpoint) _stoker_checkpoint ;;
    completion) _stoker_completion ;;
    convert) _stoker_convert ;;
    cp) _stoker_cp ;;
    doctor) _stoker_doctor ;;
    help) _stoker ;;
    index) _stoker_index ;;
    ls) _stoker_ls ;;
    pack) _stoker_pack ;;
    plan) _stoker_plan ;;
    stage) _stoker_stage ;;
    stats) _stoker_stats ;;
    stream) _stoker_stream ;;
    tune) _stoker_tune ;;
    verify) _stoker_verify ;;
    esac ;;
  esac
}

_stoker_bench() {
  local curcontext="$curcontext" state line
  local -a commands=(
    'disk:Measure the disk under a directory: sequential and random transfers through the page cache, past it and by mmap, cold and warm; fsync; small files.'
    'cliff:Write incompressible data until the drive becomes slower: how much it absorbs before that, both rates, and the limit that avoids the drop.'
    'checkpoint:Save and restore checkpoints below a directory: how long a save blocks training, when it is durable, and how fast a restore is, cold and warm.'
    'gpu:Measure how fast bytes reach a GPU and come back: from pinned and pageable memory, and from a file through a ring of pinned buffers, against what the PCI Express link can do.'
  )
  _arguments -C \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '1:command:->command' \
    '*::argument:->argument'
  case $state in
  command) _describe command commands ;;
  argument)
    case $words[1] in
    disk) _stoker_bench_disk ;;
    cliff) _stoker_bench_cliff ;;
    checkpoint) _stoker_bench_checkpoint ;;
    gpu) _stoker_bench_gpu ;;
    esac ;;
  esac
}

_stoker_bench_disk() {
  _arguments \
    ':DIR:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--size=[Size of the test file (default: 4GiB; 256MiB with --quick).]:TEXT:' \
    '--quick[Finish in a few seconds instead of a minute.]' \
    '--engine=[I/O engine: auto, uring, threads or sync (default: auto).]:TEXT:' \
    '--policy=[Measure one policy: automatic, buffered, direct, drop_behind or mmap (default: compare buffered, direct and mmap).]:TEXT:' \
    '--json[Print one JSON object instead of the table.]' \
    '(-v --verbose)'{-v,--verbose}'[Print on stderr what is being measured.]' \
    '*--only=[Cases to measure, comma-separated: seq_write, seq_read, rand_read, fsync, fdatasync, small_create, small_read.]:TEXT:' \
    '--block=[Block size instead of the usual ones.]:TEXT:' \
    '--depth=[Queue depth instead of the usual ones.]:UINT in [1 - 1024]:' \
    '--time=[Maximum time per case (default: 1500ms; 120ms with --quick).]:TEXT:'
}

_stoker_bench_cliff() {
  _arguments \
    ':DIR:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--bytes=[Maximum number of bytes to write (default: a quarter of the free space, up to 64GiB).]:TEXT:' \
    '--engine=[I/O engine: auto, uring, threads or sync (default: auto).]:TEXT:' \
    '--policy=[Cache policy: automatic, buffered, direct or drop_behind (default: automatic).]:TEXT:' \
    '--json[Print one JSON object instead of text.]' \
    '(-v --verbose)'{-v,--verbose}'[Print on stderr what is being measured.]'
}

_stoker_bench_checkpoint() {
  _arguments \
    ':DIR:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--size=[Size of all tensors together (default: 4GiB).]:TEXT:' \
    '--saves=[Number of saves (default: 3).]:UINT in [1 - 10000]:' \
    '--json[Print one JSON object instead of text.]' \
    '(-v --verbose)'{-v,--verbose}'[Print on stderr what is being measured.]'
}

_stoker_bench_gpu() {
  _arguments \
    ':DIR:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--size=[Bytes to copy and read (default: 1GB, 10GB, 100GB).]:TEXT:' \
    '--device=[Number of the GPU, from 0 (default: 0).]:UINT:' \
    '--threads=[Threads that read the file (default: the cores, up to 16).]:UINT:' \
    '--json[Print one JSON object instead of text.]' \
    '(-v --verbose)'{-v,--verbose}'[Print on stderr what is being measured.]'
}

_stoker_cache() {
  local curcontext="$curcontext" state line
  local -a commands=(
    'ls:List the objects that have chunks in a cache.'
    'verify:Check every chunk, and remove damaged ones: they are fetched again when needed.'
    'clear:Remove all chunks.'
  )
  _arguments -C \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '1:command:->command' \
    '*::argument:->argument'
  case $state in
  command) _describe command commands ;;
  argument)
    case $words[1] in
    ls) _stoker_cache_ls ;;
    verify) _stoker_cache_verify ;;
    clear) _stoker_cache_clear ;;
    esac ;;
  esac
}

_stoker_cache_ls() {
  _arguments \
    ':DIR:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--json[Print one JSON object.]'
}

_stoker_cache_verify() {
  _arguments \
    ':DIR:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--json[Print one JSON object.]'
}

_stoker_cache_clear() {
  _arguments \
    ':DIR:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--json[Print one JSON object.]'
}

_stoker_cat() {
  _arguments \
    ':URI:_files' \
    ':SAMPLE:' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--format=[Format of the shards (default: recognised by content): tar, tfrecord, mds, litdata, megatron, npy, raw, counted, shard001.]:TEXT:' \
    '--dtype=[Element type of arrays without a header: uint16, int32, float32, ...]:TEXT:' \
    '(-v --verbose)'{-v,--verbose}'[Show progress even if stderr is not a terminal.]'
}

_stoker_checkpoint() {
  local curcontext="$curcontext" state line
  local -a commands=(
    'ls:List the checkpoints.'
    'show:Show what is in a checkpoint: tensors, files, state.'
    'verify:Check every byte, and list what is damaged.'
    'diff:List the tensors in which two checkpoints differ, and by how much.'
    'export:Write a checkpoint'\''s tensors as safetensors, or for torch.'
    'import:Make a checkpoint from a safetensors file or a torch file.'
    'prune:Remove checkpoints, except those that a rule keeps.'
    'pin:Keep a checkpoint, whatever the rules say.'
    'unpin:Undo `pin`.'
    'annotate:Add values to a checkpoint.'
  )
  _arguments -C \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '1:command:->command' \
    '*::argument:->argument'
  case $state in
  command) _describe command commands ;;
  argument)
    case $words[1] in
    ls) _stoker_checkpoint_ls ;;
    show) _stoker_checkpoint_show ;;
    verify) _stoker_checkpoint_verify ;;
    diff) _stoker_checkpoint_diff ;;
    export) _stoker_checkpoint_export ;;
    import) _stoker_checkpoint_import ;;
    prune) _stoker_checkpoint_prune ;;
    pin) _stoker_checkpoint_pin ;;
    unpin) _stoker_checkpoint_unpin ;;
    annotate) _stoker_checkpoint_annotate ;;
    esac ;;
  esac
}

_stoker_checkpoint_ls() {
  _arguments \
    ':DIR:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--verify[Check every byte of each checkpoint.]' \
    '--json[Print one JSON object.]'
}

_stoker_checkpoint_show() {
  _arguments \
    ':DIR:_files' \
    ':STEP:' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--json[Print one JSON object.]'
}

_stoker_checkpoint_verify() {
  _arguments \
    ':DIR:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--step=[Step number, `latest`, or the name of a directory in DIR.]:TEXT:' \
    '--all[Check all checkpoints in DIR.]' \
    '--json[Print one JSON object.]'
}

_stoker_checkpoint_diff() {
  _arguments \
    ':DIR:_files' \
    ':A:' \
    ':B:' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--json[Print one JSON object.]'
}

_stoker_checkpoint_export() {
  _arguments \
    ':DIR:_files' \
    ':STEP:' \
    ':OUT:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--hf[Write the tree `model` as a directory in the layout of Hugging Face models.]' \
    '--peft[Write the LoRA adapter in the tree `model` as a directory for PEFT.]' \
    '--dcp[Write a directory that torch.distributed.checkpoint loads.]' \
    '--adapter=[With --peft: name of the adapter in the model (default: default).]:TEXT:' \
    '--config=[With --hf: the config.json to put into OUT.]:TEXT:_files' \
    '--max-shard-size=[With --hf: largest size of a file (default: 5GiB).]:TEXT:' \
    '*--only=[Export only tensors whose names begin with this; may be repeated.]:TEXT:' \
    '*--strip=[Remove this from the beginning of names; may be repeated.]:TEXT:' \
    '--rank=[Export the tensors of this rank: its own, and those that all ranks share.]:UINT:' \
    '--json[Print one JSON object.]'
}

_stoker_checkpoint_import() {
  _arguments \
    ':DIR:_files' \
    ':FILE:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--step=[Step number to save it as.]:UINT:' \
    '--as=[Name of the tree to save it as (default: state; for files of torch, the trees in them).]:TEXT:' \
    '--json[Print one JSON object.]'
}

_stoker_checkpoint_prune() {
  _arguments \
    ':DIR:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--keep-last=[Keep the N newest.]:UINT:' \
    '--keep-every=[Keep steps that are multiples of N.]:UINT:' \
    '--keep-best=[METRIC:min\[:N\] or METRIC:max\[:N\]: keep the N (default: 1) with the smallest or largest value.]:TEXT:' \
    '--dry-run[List what would be removed, and remove nothing.]' \
    '--json[Print one JSON object.]'
}

_stoker_checkpoint_pin() {
  _arguments \
    ':DIR:_files' \
    ':STEP:' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--json[Print one JSON object.]'
}

_stoker_checkpoint_unpin() {
  _arguments \
    ':DIR:_files' \
    ':STEP:' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--json[Print one JSON object.]'
}

_stoker_checkpoint_annotate() {
  _arguments \
    ':DIR:_files' \
    ':STEP:' \
    '*:VALUE:' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--json[Print one JSON object.]'
}

_stoker_completion() {
  _arguments \
    ':SHELL:(bash zsh)' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]'
}

_stoker_convert() {
  _arguments \
    ':SRC:_files' \
    ':DST:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--format=[Format of the shards: tar, tfrecord, mds, tokens (Megatron), counted (rows of one length) or shard001 (rows of one length).]:TEXT:' \
    '--samples-per-shard=[Maximum number of samples in a shard (default: as many as its size allows).]:UINT:' \
    '--shard-size=[Maximum size of a shard (default: 256MiB).]:TEXT:' \
    '--threads=[Shards to write at a time (default: one for each core).]:UINT in [1 - 1024]:' \
    '--shuffle-seed=[Shuffle the samples; the same seed gives the same shards.]:TEXT:' \
    '--prefix=[Prefix of the shards'\'' names (default: shard); not for MDS, which has its own names.]:TEXT:' \
    '--task=[I/N: pack part I (from 0) of N, so that N processes share the work: every N-th shard, or adjacent rows of what Python reads.]:TEXT:' \
    '--staging=[If DST is a bucket: a directory of this machine that has room for all shards, which are made there first (default: below ~/.cache/stoker).]:TEXT:_files' \
    '--json[Print one JSON object.]' \
    '--source-format=[Format of SRC (default: recognised by content): raw, counted, ...]:TEXT:' \
    '--dtype=[Element type of arrays without a header.]:TEXT:'
}

_stoker_cp() {
  _arguments \
    '*:PLACE:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--if-present=[What to do with a file that DST has already: compare it, and replace it if it differs; skip it if its size is the same; replace it; or fail (default: compare).]:{compare,skip,replace,fail}:(compare skip replace fail)' \
    '--no-verify[Do not read back what was written.]' \
    '--jobs=[Number of files to copy at a time (default: 4).]:UINT in [1 - 1024]:' \
    '--json[Print the result as JSON.]'
}

_stoker_doctor() {
  _arguments \
    '*:PATH:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--json[Print one JSON object.]' \
    '--role=[What the paths are for: dataset, checkpoint or both (default: both).]:{dataset,checkpoint,both}:(dataset checkpoint both)' \
    '--set-stripe[Set the Lustre layout of each PATH, a directory, for its role: print the `lfs setstripe` command and run it.]'
}

_stoker_index() {
  _arguments \
    '*:URI:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--format=[Format of the shards (default: recognised by content): tar, tfrecord, mds, litdata, megatron, npy, raw, counted, shard001.]:TEXT:' \
    '--dtype=[Element type of arrays without a header: uint16, int32, float32, ...]:TEXT:' \
    '(-v --verbose)'{-v,--verbose}'[Show progress even if stderr is not a terminal.]' \
    '--checksums[Add a checksum for each sample, checked on every read; reads every byte once.]' \
    '--rebuild[Rebuild the index even if it is up to date.]' \
    '--json[Print one JSON object for each dataset.]'
}

_stoker_ls() {
  _arguments \
    '*:URI:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--format=[Format of the shards (default: recognised by content): tar, tfrecord, mds, litdata, megatron, npy, raw, counted, shard001.]:TEXT:' \
    '--dtype=[Element type of arrays without a header: uint16, int32, float32, ...]:TEXT:' \
    '(-v --verbose)'{-v,--verbose}'[Show progress even if stderr is not a terminal.]' \
    '--limit=[Samples to list of each dataset (default: all).]:UINT:' \
    '--json[Print one JSON object for each sample.]'
}

_stoker_pack() {
  _arguments \
    ':SRC:_files' \
    ':DST:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--format=[Format of the shards: tar, tfrecord, mds, tokens (Megatron), counted (rows of one length) or shard001 (rows of one length).]:TEXT:' \
    '--samples-per-shard=[Maximum number of samples in a shard (default: as many as its size allows).]:UINT:' \
    '--shard-size=[Maximum size of a shard (default: 256MiB).]:TEXT:' \
    '--threads=[Shards to write at a time (default: one for each core).]:UINT in [1 - 1024]:' \
    '--shuffle-seed=[Shuffle the samples; the same seed gives the same shards.]:TEXT:' \
    '--prefix=[Prefix of the shards'\'' names (default: shard); not for MDS, which has its own names.]:TEXT:' \
    '--task=[I/N: pack part I (from 0) of N, so that N processes share the work: every N-th shard, or adjacent rows of what Python reads.]:TEXT:' \
    '--staging=[If DST is a bucket: a directory of this machine that has room for all shards, which are made there first (default: below ~/.cache/stoker).]:TEXT:_files' \
    '--json[Print one JSON object.]' \
    '--from=[Kind of SRC (default: recognised): classes, tree, jsonl, tokens, raw, counted, shard001, parquet, petastorm, arrow, hf, hdf5, lmdb or text.]:TEXT:' \
    '--dtype=[Element type of a .bin without a header: uint16, int32, ...]:TEXT:' \
    '--sequence-length=[Cut token arrays into sequences of this many tokens.]:UINT:' \
    '--hidden[Directories: pack hidden files and directories, too; their dot becomes "_" in keys.]' \
    '--classes=[Class directories: a classes.json (of an earlier pack) with the numbers.]:TEXT:_files' \
    '--columns=[Parquet, Arrow: columns to pack, comma-separated (default: all).]:TEXT:' \
    '--where=[Parquet, Arrow: rows to pack, such as "label < 10 and split == '\''train'\''".]:TEXT:' \
    '--key=[Parquet, Arrow, HDF5: the column with the keys (default: the row'\''s number).]:TEXT:' \
    '--json-columns=[Parquet, Arrow: a,b: store these columns as JSON, whatever their type.]:TEXT:' \
    '--rename=[Parquet, Arrow, HDF5: OLD=NEW,...: names of fields in the shards.]:TEXT:' \
    '--schema=[Petastorm: JSON file that describes which columns are arrays or images.]:TEXT:_files' \
    '--datasets=[HDF5: datasets to pack, comma-separated (default: all).]:TEXT:' \
    '--field=[LMDB: name of the field for the values, such as jpg (default: bin).]:TEXT:' \
    '--database=[LMDB: the named database to pack.]:TEXT:' \
    '--tokenizer=[Text, JSONL: tokenizer.json to make tokens with.]:TEXT:_files' \
    '--eod=[With --tokenizer: number of the token that ends a document.]:TEXT:' \
    '--lines[With --tokenizer: treat each line of text as a document.]' \
    '--text-field=[With --tokenizer: field of JSONL that has the text (default: text).]:TEXT:' \
    '--merge=[Complete the dataset that the tasks have packed into this directory.]:TEXT:_files'
}

_stoker_plan() {
  local curcontext="$curcontext" state line
  local -a commands=(
    'read:How fast must storage be for my GPUs?'
    'checkpoint:How large and slow is my checkpoint, and what does saving cost?'
    'interval:How often should I save?'
    'endurance:How long will my SSDs live?'
    'cliff:Which rate avoids the write cliff?'
    'targets:How many storage targets or drives do I need?'
    'stall:What does a stall cost?'
    'cluster:Which tiers of storage do N GPUs need?'
    'epoch:How long does reading the dataset take, or at which rate is it read in time?'
    'raid:How fast, and how safe, are drives in RAID-0?'
    'share:Which rate does one client get from shared storage?'
    'path:What limits the way from storage to a GPU?'
    'objects:What do S3 requests allow, and cost?'
    'iops:How many requests, and how much metadata, does the data cost?'
    'prefetch:How much memory does reading ahead take?'
    'rule:What does the rule of 1 GB/s per 100 TFLOP/s say, beside my real need?'
    'tracking:How much storage does experiment tracking take?'
    'devices:List the catalogue of devices.'
  )
  _arguments -C \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '1:command:->command' \
    '*::argument:->argument'
  case $state in
  command) _describe command commands ;;
  argument)
    case $words[1] in
    read) _stoker_plan_read ;;
    checkpoint) _stoker_plan_checkpoint ;;
    interval) _stoker_plan_interval ;;
    endurance) _stoker_plan_endurance ;;
    cliff) _stoker_plan_cliff ;;
    targets) _stoker_plan_targets ;;
    stall) _stoker_plan_stall ;;
    cluster) _stoker_plan_cluster ;;
    epoch) _stoker_plan_epoch ;;
    raid) _stoker_plan_raid ;;
    share) _stoker_plan_share ;;
    path) _stoker_plan_path ;;
    objects) _stoker_plan_objects ;;
    iops) _stoker_plan_iops ;;
    prefetch) _stoker_plan_prefetch ;;
    rule) _stoker_plan_rule ;;
    tracking) _stoker_plan_tracking ;;
    devices) _stoker_plan_devices ;;
    esac ;;
  esac
}

_stoker_plan_read() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--gpus=[GPUs that read.]:NUMBER:' \
    '--batch=[Samples that each GPU takes in a step.]:NUMBER:' \
    '--sample=[Bytes of a sample as it is stored.]:SIZE:' \
    '--step=[Time of a training step.]:TIME:' \
    '--request=[Bytes of one read of a shard (default: 4MiB).]:SIZE:' \
    '--fed=[Rate that the storage has, for all GPUs.]:RATE:' \
    '--read-rate=[Read rate of one drive.]:RATE:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--measure=[Measure the storage of this directory for some seconds, and use its rates.]:TEXT:_files' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_checkpoint() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--parameters=[Parameters of the model: 70e9.]:NUMBER:' \
    '--precision=[Precision of the weights (default: bf16).]:{fp32,bf16,fp16,fp8}:(fp32 bf16 fp16 fp8)' \
    '--optimizer=[Optimizer whose state is saved (default: adam).]:{none,sgd,momentum,adam}:(none sgd momentum adam)' \
    '--bytes-per-parameter=[Bytes saved for a parameter, instead of precision and optimizer.]:SIZE:' \
    '--size=[Bytes of the checkpoint, if known.]:SIZE:' \
    '--drives=[Drives, or targets, written in parallel (default: 1).]:NUMBER:' \
    '--write-rate=[Sustained write rate of one drive.]:RATE:' \
    '--read-rate=[Read rate of one drive.]:RATE:' \
    '--links=[GPUs that copy to host memory in parallel (default: 1).]:NUMBER:' \
    '--link-rate=[Rate of one GPU to host memory.]:RATE:' \
    '--interval=[Training time between two saves.]:TIME:' \
    '--gpus=[GPUs that wait (default: 1).]:NUMBER:' \
    '--price=[Price of a GPU.]:MONEY/TIME:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--measure=[Measure the storage of this directory for some seconds, and use its rates.]:TEXT:_files' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_interval() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--save=[Time from the beginning of a save until it is durable.]:TIME:' \
    '--blocked=[Time for which a save stops the training (default: all of save).]:TIME:' \
    '--mtbf=[Mean time between failures of the job.]:TIME:' \
    '--gpus=[GPUs of the job.]:NUMBER:' \
    '--gpu-mtbf=[Mean time between failures that one GPU, with its node, causes.]:TIME:' \
    '--restart=[Time from a failure until training continues (default: 5min).]:TIME:' \
    '--interval=[Your own interval, to compare.]:TIME:' \
    '--step=[Time of a training step.]:TIME:' \
    '--price=[Price of a GPU.]:MONEY/TIME:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--plot=[Write the curve to this file, as SVG.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_endurance() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--size=[Bytes that the host writes each time.]:SIZE:' \
    '--writes=[How often: 48/d, 2/h.]:FREQUENCY:' \
    '--tbw=[Rated endurance of one drive, in bytes: 700TB.]:SIZE:' \
    '--drives=[Drives that share the writes evenly (default: 1).]:NUMBER:' \
    '--capacity=[Capacity of one drive.]:SIZE:' \
    '--used=[Endurance that is used up now ("Percentage Used" of smartctl) (default: 0%).]:SHARE:' \
    '--time=[Time to look ahead.]:TIME:' \
    '--write-amplification=[Bytes written to flash for each byte of the host.]:NUMBER:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_cliff() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--size=[Bytes written at once.]:SIZE:' \
    '--cache=[Bytes that the cache takes.]:SIZE:' \
    '--fast-rate=[Rate into the cache.]:RATE:' \
    '--drain-rate=[Rate at which the cache drains while it is written to, and alone.]:RATE:' \
    '--slow-rate=[Rate when the cache is full.]:RATE:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--plot=[Write the curve to this file, as SVG.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_targets() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--read-load=[Rate of all reads (plan read).]:RATE:' \
    '--write-load=[Rate of all writes.]:RATE:' \
    '--write-size=[Bytes of a checkpoint, instead.]:SIZE:' \
    '--write-time=[Time in which it is written.]:TIME:' \
    '--target-rate=[Rate of one target or drive.]:RATE:' \
    '--stored=[Bytes to store.]:SIZE:' \
    '--target-capacity=[Capacity of one target.]:SIZE:' \
    '--dataset=[Bytes of an epoch, for its time.]:SIZE:' \
    '--target-price=[Price of one target.]:MONEY:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_stall() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--gpus=[GPUs that wait (default: 1).]:NUMBER:' \
    '--price=[Price of one GPU, or of all if gpus is not given.]:MONEY/TIME:' \
    '--stall=[How long they wait each time.]:TIME:' \
    '--times=[How many times.]:NUMBER:' \
    '--stalls=[How often, instead: 4/h.]:FREQUENCY:' \
    '--time=[For how long they come that often.]:TIME:' \
    '--busy=[Share of the time in which the GPUs work now.]:SHARE:' \
    '--busy-after=[The same after a change.]:SHARE:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_cluster() {
  _arguments \
    ':WORKLOAD:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--example[Print a workload file to start from.]' \
    '--gpus=[GPUs of the job.]:NUMBER:' \
    '--gpus-per-node=[GPUs of a node (default: 8).]:NUMBER:' \
    '--batch=[Samples that each GPU takes in a step.]:NUMBER:' \
    '--sample=[Bytes of a sample as it is stored.]:SIZE:' \
    '--decoded=[Bytes of a sample in memory.]:SIZE:' \
    '--step=[Time of a training step.]:TIME:' \
    '--depth=[Batches read ahead for each GPU (default: 4).]:NUMBER:' \
    '--dataset=[Bytes of the dataset.]:SIZE:' \
    '--parameters=[Parameters of the model.]:NUMBER:' \
    '--bytes-per-parameter=[Bytes saved for each of them (default: 14B).]:SIZE:' \
    '--interval=[Training time between two saves (default: 30min).]:TIME:' \
    '--gpu-mtbf=[Mean time between failures that one GPU causes (default: 50000h).]:TIME:' \
    '--restart=[Time from a failure until training continues (default: 5min).]:TIME:' \
    '--life=[Time for which the drives must live (default: 1826d).]:TIME:' \
    '--link-rate=[Rate of one GPU to host memory.]:RATE:' \
    '--price=[Price of a GPU.]:MONEY/TIME:' \
    '--memory-capacity=[Memory of a node.]:SIZE:' \
    '--cache-read-rate=[Read rate of a drive.]:RATE:' \
    '--cache-write-rate=[Write rate of a drive.]:RATE:' \
    '--cache-capacity=[Capacity of a drive.]:SIZE:' \
    '--cache-tbw=[Endurance of a drive, in bytes.]:SIZE:' \
    '--cache-checkpoints=[Saves that the cache keeps (default: 2).]:NUMBER:' \
    '--cache-write-time=[Time in which a save is written (default: 60s).]:TIME:' \
    '--cache-drive-price=[Price of a drive.]:MONEY:' \
    '--filesystem-target-rate=[Rate of a target.]:RATE:' \
    '--filesystem-target-capacity=[Capacity of a target.]:SIZE:' \
    '--filesystem-checkpoints=[Saves that it keeps (default: 20).]:NUMBER:' \
    '--filesystem-write-time=[Time in which a save is copied to it (default: 10min).]:TIME:' \
    '--filesystem-target-price=[Price of a target.]:MONEY:' \
    '--objects-fill-time=[Time in which the caches are filled (default: 4h).]:TIME:' \
    '--objects-request=[Bytes of a ranged read (default: 8MiB).]:SIZE:' \
    '--objects-request-rate=[Rate of one request.]:RATE:' \
    '--objects-storage-price=[Price of bytes for a month: 0.023USD/GiB.]:MONEY/SIZE:' \
    '--objects-get-price=[Price of 1,000 reads.]:MONEY:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--measure=[Measure the storage of this directory for some seconds, and use its rates.]:TEXT:_files' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_epoch() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--samples=[Samples, or tokens, of the dataset.]:NUMBER:' \
    '--sample=[Bytes of one.]:SIZE:' \
    '--dataset=[Bytes of all of them.]:SIZE:' \
    '--time=[Time in which all are read once.]:TIME:' \
    '--rate=[Rate at which they are read.]:RATE:' \
    '--gpus=[GPUs that share the work.]:NUMBER:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_raid() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--drives=[Drives of the array.]:NUMBER:' \
    '--read-rate=[Rate of one drive.]:RATE:' \
    '--slowest-rate=[Rate of the slowest drive.]:RATE:' \
    '--shared-rate=[Rate of what all drives share: a PCIe switch, a controller, a NIC.]:RATE:' \
    '--stripe=[Bytes on one drive before the next (chunk) (default: 512KiB).]:SIZE:' \
    '--request=[Bytes of one request (default: 4MiB).]:SIZE:' \
    '--yearly-failures=[Chance that one drive fails in a year (default: 1%).]:SHARE:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--measure=[Measure the storage of this directory for some seconds, and use its rates.]:TEXT:_files' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_share() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--targets=[Storage targets.]:NUMBER:' \
    '--target-rate=[Rate of one target.]:RATE:' \
    '--clients=[Clients that are busy at once.]:NUMBER:' \
    '--stripes=[Targets that a file is striped over (default: 1).]:NUMBER:' \
    '--nic-rate=[Rate of a client'\''s network.]:RATE:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_path() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--lanes=[PCIe lanes of the GPU (default: 16).]:NUMBER:' \
    '--transfers=[Transfers of a lane, one bit each: 32e9/s.]:FREQUENCY:' \
    '--payload-bits=[Bits of data in a frame of the line code: 128.]:NUMBER:' \
    '--frame-bits=[Bits of such a frame: 130.]:NUMBER:' \
    '--storage-rate=[Rate of the storage.]:RATE:' \
    '--nic-rate=[Rate of the NIC in bytes.]:RATE:' \
    '--fabric-rate=[Rate of this node'\''s share of the fabric.]:RATE:' \
    '--memory-rate=[Bandwidth of host memory.]:RATE:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_objects() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--dataset=[Bytes of the dataset.]:SIZE:' \
    '--object=[Bytes of an object: a shard.]:SIZE:' \
    '--request=[Bytes of a ranged read (default: 8MiB).]:SIZE:' \
    '--rate=[Rate that the training needs.]:RATE:' \
    '--epochs=[How many times all of it is read (default: 1).]:NUMBER:' \
    '--request-rate=[Rate of one request.]:RATE:' \
    '--prefix-gets=[Reads that one prefix of keys serves: 5500/s.]:FREQUENCY:' \
    '--get-price=[Price of 1,000 reads.]:MONEY:' \
    '--put-price=[Price of 1,000 writes.]:MONEY:' \
    '--storage-price=[Price of bytes for a month: 0.023USD/GiB.]:MONEY/SIZE:' \
    '--transfer-price=[Price of bytes that leave the region: 0.09USD/GiB (default: 0USD/GB).]:MONEY/SIZE:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_iops() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--rate=[Rate that the training needs (plan read).]:RATE:' \
    '--request=[Bytes of a request.]:SIZE:' \
    '--latency=[Latency of a request (default: 100us).]:TIME:' \
    '--read-iops=[Random reads that one drive performs: 900000/s.]:FREQUENCY:' \
    '--files=[Single files that are read in an epoch.]:NUMBER:' \
    '--file-operations=[Metadata operations for each: open, stat, close (default: 3).]:NUMBER:' \
    '--metadata-rate=[Metadata operations that the servers perform: 50000/s.]:FREQUENCY:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--measure=[Measure the storage of this directory for some seconds, and use its rates.]:TEXT:_files' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_prefetch() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--depth=[Batches read ahead.]:NUMBER:' \
    '--batch=[Samples of a batch.]:NUMBER:' \
    '--decoded=[Bytes of a decoded sample.]:SIZE:' \
    '--workers=[Workers that each read ahead (torch) (default: 1).]:NUMBER:' \
    '--processes=[Processes of a node: one for each GPU (default: 1).]:NUMBER:' \
    '--memory=[Memory of the node.]:SIZE:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_rule() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--flops=[Rate of one GPU, dense.]:FLOP/TIME:' \
    '--gpus=[GPUs (default: 1).]:NUMBER:' \
    '--read-rate=[Read rate of one drive, to count drives.]:RATE:' \
    '--needed=[Rate that the training really needs (plan read).]:RATE:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--measure=[Measure the storage of this directory for some seconds, and use its rates.]:TEXT:_files' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_tracking() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--runs=[Runs that are kept.]:NUMBER:' \
    '--metrics=[Metrics of a run.]:NUMBER:' \
    '--steps=[Steps of a run.]:NUMBER:' \
    '--every=[Steps between two points (default: 1).]:NUMBER:' \
    '--point=[Bytes of a point (default: 24B).]:SIZE:' \
    '--artifacts=[Artifacts of a run (default: 0).]:NUMBER:' \
    '--artifact=[Bytes of an artifact (default: 0B).]:SIZE:' \
    '--time=[Time in which the points come.]:TIME:' \
    '--storage-price=[Price of bytes for a month: 0.023USD/GiB.]:MONEY/SIZE:' \
    '*--from=[Device of the catalogue whose values fill other options; may be repeated.]:TEXT:' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_plan_devices() {
  _arguments \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--catalogue=[File with devices of your own: they precede Stoker'\''s of the same name.]:TEXT:_files' \
    '--print[Print Stoker'\''s catalogue as a file.]' \
    '--json[Print one JSON object for each device.]'
}

_stoker_stage() {
  _arguments \
    '*:URI:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--format=[Format of the shards (default: recognised by content): tar, tfrecord, mds, litdata, megatron, npy, raw, counted, shard001.]:TEXT:' \
    '--dtype=[Element type of arrays without a header: uint16, int32, float32, ...]:TEXT:' \
    '(-v --verbose)'{-v,--verbose}'[Show progress even if stderr is not a terminal.]' \
    '--cache=[Directory on a local disk that keeps what was read from remote shards.]:TEXT:_files' \
    '--cache-size=[Maximum total size of the files in --cache, such as 200GiB; required with it.]:TEXT:' \
    '--json[Print one JSON object for each dataset.]'
}

_stoker_stats() {
  _arguments \
    '*:URI:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--format=[Format of the shards (default: recognised by content): tar, tfrecord, mds, litdata, megatron, npy, raw, counted, shard001.]:TEXT:' \
    '--dtype=[Element type of arrays without a header: uint16, int32, float32, ...]:TEXT:' \
    '(-v --verbose)'{-v,--verbose}'[Show progress even if stderr is not a terminal.]' \
    '--limit=[Samples to read from each dataset to measure fields (default: 10000).]:UINT:' \
    '--json[Print one JSON object for each dataset.]'
}

_stoker_stream() {
  _arguments \
    '*:URI:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--format=[Format of the shards (default: recognised by content): tar, tfrecord, mds, litdata, megatron, npy, raw, counted, shard001.]:TEXT:' \
    '--dtype=[Element type of arrays without a header: uint16, int32, float32, ...]:TEXT:' \
    '(-v --verbose)'{-v,--verbose}'[Show progress even if stderr is not a terminal.]' \
    '--batch-size=[Samples in a batch of each rank (default: 64).]:UINT:' \
    '--global-batch-size=[Samples in a batch over all ranks, instead of --batch-size.]:UINT:' \
    '--shuffle=[Order: global, block, off or resampled (default: global).]:TEXT:' \
    '--seed=[Shuffle seed (default: 0).]:UINT:' \
    '--tail=[What to do with samples at the end that do not fill a batch: drop, keep, wrap or pad (default: drop; keep without shuffling).]:TEXT:' \
    '--rank=[Number of this rank, from 0 (default: 0).]:UINT:' \
    '--world-size=[Number of ranks that share each global batch (default: 1).]:UINT:' \
    '--step-ms=[Simulated duration of a training step, in milliseconds (default: 0).]:FLOAT:' \
    '--memory=[Memory for all batches (default: 512MiB, or what is needed if that is more).]:TEXT:' \
    '--engine=[I/O engine: auto, uring, threads or sync (default: auto).]:TEXT:' \
    '--window=[Read token arrays in rows of this many tokens, across documents.]:UINT:' \
    '--stride=[Tokens from the start of one window to the next (default: --window).]:UINT:' \
    '--extra=[Extra tokens in each window: 1 for targets shifted by one (default: 0).]:UINT:' \
    '--pack=[Read token arrays in rows of at most this many tokens, packed from whole documents.]:UINT:' \
    '--threads=[Threads that read and convert; auto adapts them to the waits (default: auto).]:TEXT:' \
    '--depth=[Batches to prepare ahead; auto adapts it to the waits (default: auto).]:TEXT:' \
    '--policy=[Cache policy: automatic, buffered, direct or drop_behind (default: automatic).]:TEXT:' \
    '--cache=[Directory on a local disk that keeps what was read from remote shards.]:TEXT:_files' \
    '--cache-size=[Maximum total size of the files in --cache, such as 200GiB; required with it.]:TEXT:' \
    '--epochs=[Number of epochs; 0 means no end (default: 1).]:UINT:' \
    '--max-batches=[Stop after this many batches.]:UINT:' \
    '--print-keys[Print the keys in the order delivered, one per line.]' \
    '--cursor-file=[Save the position of the stream in this file, and continue from it.]:TEXT:_files' \
    '--cursor-every=[Batches between two writes of the cursor file (default: 1).]:UINT:' \
    '*--allow=[Settings that may differ from the cursor: global_batch_size, tail, fingerprint.]:TEXT:' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_tune() {
  _arguments \
    '*:URI:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--format=[Format of the shards (default: recognised by content): tar, tfrecord, mds, litdata, megatron, npy, raw, counted, shard001.]:TEXT:' \
    '--dtype=[Element type of arrays without a header: uint16, int32, float32, ...]:TEXT:' \
    '(-v --verbose)'{-v,--verbose}'[Show progress even if stderr is not a terminal.]' \
    '--batch-size=[Samples in a batch of each rank (default: 64).]:UINT:' \
    '--global-batch-size=[Samples in a batch over all ranks, instead of --batch-size.]:UINT:' \
    '--shuffle=[Order: global, block, off or resampled (default: global).]:TEXT:' \
    '--seed=[Shuffle seed (default: 0).]:UINT:' \
    '--tail=[What to do with samples at the end that do not fill a batch: drop, keep, wrap or pad (default: drop; keep without shuffling).]:TEXT:' \
    '--rank=[Number of this rank, from 0 (default: 0).]:UINT:' \
    '--world-size=[Number of ranks that share each global batch (default: 1).]:UINT:' \
    '--step-ms=[Simulated duration of a training step, in milliseconds (default: 0).]:FLOAT:' \
    '--memory=[Memory for all batches (default: 512MiB, or what is needed if that is more).]:TEXT:' \
    '--engine=[I/O engine: auto, uring, threads or sync (default: auto).]:TEXT:' \
    '--time=[Total time to spend (default: 20s).]:TEXT:' \
    '--cold[Evict the shards from the page cache before each run; this affects other programs.]' \
    '--json[Print one JSON object instead of text.]'
}

_stoker_verify() {
  _arguments \
    ':DIR:_files' \
    '(-h --help)'{-h,--help}'[Print this help message and exit]' \
    '--format=[Format of the shards (default: recognised by content).]:TEXT:' \
    '--dtype=[Element type of arrays without a header.]:TEXT:' \
    '--threads=[Shards to check at a time (default: one for each core).]:UINT in [1 - 1024]:' \
    '--json[Print one JSON object.]'
}

if [[ $funcstack[1] == _stoker ]]; then
  _stoker "$@"
else
  compdef _stoker stoker
fi
