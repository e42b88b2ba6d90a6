# bash completion for stoker, written by `stoker completion bash`.
_stoker() {
  local command=stoker word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i
  local words= options= files=
  # --option=value is three words.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
    "stoker bench" | \
      "stoker bench disk" | \
      "stoker bench cliff" | \
      "stoker bench checkpoint" | \
      "stoker bench gpu" | \
      "stoker cache" | \
      "stoker cache ls" | \
      "stoker cache verify" | \
      "stoker cache clear" | \
      "stoker cat" | \
      "stoker checkpoint" | \
      "stoker checkpoint ls" | \
      "stoker checkpoint show" | \
      "stoker checkpoint verify" | \
      "stoker checkpoint diff" | \
      "stoker checkpoint export" | \
      "stoker checkpoint import" | \
      "stoker checkpoint prune" | \
      "stoker checkpoint pin" | \
      "stoker checkpoint unpin" | \
      "stoker checkpoint annotate" | \
      "stoker completion" | \
      "stoker convert" | \
      "stoker cp" | \
      "stoker doctor" | \
      "stoker index" | \
      "stoker ls" | \
      "stoker pack" | \
      "stoker plan" | \
      "stoker plan read" | \
      "stoker plan checkpoint" | \
      "stoker plan interval" | \
      "stoker plan endurance" | \
      "stoker plan cliff" | \
      "stoker plan targets" | \
      "stoker plan stall" | \
      "stoker plan cluster" | \
      "stoker plan epoch" | \
      "stoker plan raid" | \
      "stoker plan share" | \
      "stoker plan path" | \
      "stoker plan objects" | \
      "stoker plan iops" | \
      "stoker plan prefetch" | \
      "stoker plan rule" | \
      "stoker plan tracking" | \
      "stoker plan devices" | \
      "stoker stage" | \
      "stoker stats" | \
      "stoker stream" | \
      "stoker tune" | \
      "stoker verify")
      command+=" ${COMP_WORDS[i]}" ;;
    esac
  done
  case $command in
  "stoker")
    options='-h --help --json --version'
    words='bench cache cat checkpoint completion convert cp doctor help index ls pack plan stage stats stream tune verify'
    ;;
  "stoker bench")
    options='-h --help'
    words='disk cliff checkpoint gpu'
    ;;
  "stoker bench disk")
    options='-h --help --size --quick --engine --policy --json -v --verbose --only --block --depth --time'
    files=1
    case $before in
    --size | --engine | --policy | --only | --block | --depth | --time) options= files= ;;
    esac
    ;;
  "stoker bench cliff")
    options='-h --help --bytes --engine --policy --json -v --verbose'
    files=1
    case $before in
    --bytes | --engine | --policy) options= files= ;;
    esac
    ;;
  "stoker bench checkpoint")
    options='-h --help --size --saves --json -v --verbose'
    files=1
    case $before in
    --size | --saves) options= files= ;;
    esac
    ;;
  "stoker bench gpu")
    options='-h --help --size --device --threads --json -v --verbose'
    files=1
    case $before in
    --size | --device | --threads) options= files= ;;
    esac
    ;;
  "stoker cache")
    options='-h --help'
    words='ls verify clear'
    ;;
  "stoker cache ls")
    options='-h --help --json'
    files=1
    ;;
  "stoker cache verify")
    options='-h --help --json'
    files=1
    ;;
  "stoker cache clear")
    options='-h --help --json'
    files=1
    ;;
  "stoker cat")
    options='-h --help --format --dtype -v --verbose'
    files=1
    case $before in
    --format | --dtype) options= files= ;;
    esac
    ;;
  "stoker checkpoint")
    options='-h --help'
    words='ls show verify diff export import prune pin unpin annotate'
    ;;
  "stoker checkpoint ls")
    options='-h --help --verify --json'
    files=1
    ;;
  "stoker checkpoint show")
    options='-h --help --json'
    files=1
    ;;
  "stoker checkpoint verify")
    options='-h --help --step --all --json'
    files=1
    case $before in
    --step) options= files= ;;
    esac
    ;;
  "stoker checkpoint diff")
    options='-h --help --json'
    files=1
    ;;
  "stoker checkpoint export")
    options='-h --help --hf --peft --dcp --adapter --config --max-shard-size --only --strip --rank --json'
    files=1
    case $before in
    --config) options= files=1 ;;
    --adapter | --max-shard-size | --only | --strip | --rank) options= files= ;;
    esac
    ;;
  "stoker checkpoint import")
    options='-h --help --step --as --json'
    files=1
    case $before in
    --step | --as) options= files= ;;
    esac
    ;;
  "stoker checkpoint prune")
    options='-h --help --keep-last --keep-every --keep-best --dry-run --json'
    files=1
    case $before in
    --keep-last | --keep-every | --keep-best) options= files= ;;
    esac
    ;;
  "stoker checkpoint pin")
    options='-h --help --json'
    files=1
    ;;
  "stoker checkpoint unpin")
    options='-h --help --json'
    files=1
    ;;
  "stoker checkpoint annotate")
    options='-h --help --json'
    files=1
    ;;
  "stoker completion")
    options='-h --help'
    words='bash zsh'
    ;;
  "stoker convert")
    options='-h --help --format --samples-per-shard --shard-size --threads --shuffle-seed --prefix --task --staging --json --source-format --dtype'
    files=1
    case $before in
    --staging) options= files=1 ;;
    --format | --samples-per-shard | --shard-size | --threads | --shuffle-seed | --prefix | --task | --source-format | --dtype) options= files= ;;
    esac
    ;;
  "stoker cp")
    options='-h --help --if-present --no-verify --jobs --json'
    files=1
    case $before in
    --if-present) options= files= words='compare skip replace fail' ;;
    --jobs) options= files= ;;
    esac
    ;;
  "stoker doctor")
    options='-h --help --json --role --set-stripe'
    files=1
    case $before in
    --role) options= files= words='dataset checkpoint both' ;;
    esac
    ;;
  "stoker help")
    options='-h --help --man-pages'
    case $before in
    --man-pages) options= files=1 ;;
    esac
    ;;
  "stoker index")
    options='-h --help --format --dtype -v --verbose --checksums --rebuild --json'
    files=1
    case $before in
    --format | --dtype) options= files= ;;
    esac
    ;;
  "stoker ls")
    options='-h --help --format --dtype -v --verbose --limit --json'
    files=1
    case $before in
    --format | --dtype | --limit) options= files= ;;
    esac
    ;;
  "stoker pack")
    options='-h --help --format --samples-per-shard --shard-size --threads --shuffle-seed --prefix --task --staging --json --from --dtype --sequence-length --hidden --classes --columns --where --key --json-columns --rename --schema --datasets --field --database --tokenizer --eod --lines --text-field --merge'
    files=1
    case $before in
    --staging | --classes | --schema | --tokenizer | --merge) options= files=1 ;;
    --format | --samples-per-shard | --shard-size | --threads | --shuffle-seed | --prefix | --task | --from | --dtype | --sequence-length | --columns | --where | --key | --json-columns | --rename | --datasets | --field | --database | --eod | --text-field) options= files= ;;
    esac
    ;;
  "stoker plan")
    options='-h --help'
    words='read checkpoint interval endurance cliff targets stall cluster epoch raid share path objects iops prefetch rule tracking devices'
    ;;
  "stoker plan read")
    options='-h --help --gpus --batch --sample --step --request --fed --read-rate --from --measure --catalogue --json'
    case $before in
    --measure | --catalogue) options= files=1 ;;
    --gpus | --batch | --sample | --step | --request | --fed | --read-rate | --from) options= files= ;;
    esac
    ;;
  "stoker plan checkpoint")
    options='-h --help --parameters --precision --optimizer --bytes-per-parameter --size --drives --write-rate --read-rate --links --link-rate --interval --gpus --price --from --measure --catalogue --json'
    case $before in
    --precision) options= files= words='fp32 bf16 fp16 fp8' ;;
    --optimizer) options= files= words='none sgd momentum adam' ;;
    --measure | --catalogue) options= files=1 ;;
    --parameters | --bytes-per-parameter | --size | --drives | --write-rate | --read-rate | --links | --link-rate | --interval | --gpus | --price | --from) options= files= ;;
    esac
    ;;
  "stoker plan interval")
    options='-h --help --save --blocked --mtbf --gpus --gpu-mtbf --restart --interval --step --price --from --catalogue --plot --json'
    case $before in
    --catalogue | --plot) options= files=1 ;;
    --save | --blocked | --mtbf | --gpus | --gpu-mtbf | --restart | --interval | --step | --price | --from) options= files= ;;
    esac
    ;;
  "stoker plan endurance")
    options='-h --help --size --writes --tbw --drives --capacity --used --time --write-amplification --from --catalogue --json'
    case $before in
    --catalogue) options= files=1 ;;
    --size | --writes | --tbw | --drives | --capacity | --used | --time | --write-amplification | --from) options= files= ;;
    esac
    ;;
  "stoker plan cliff")
    options='-h --help --size --cache --fast-rate --drain-rate --slow-rate --from --catalogue --plot --json'
    case $before in
    --catalogue | --plot) options= files=1 ;;
    --size | --cache | --fast-rate | --drain-rate | --slow-rate | --from) options= files= ;;
    esac
    ;;
  "stoker plan targets")
    options='-h --help --read-load --write-load --write-size --write-time --target-rate --stored --target-capacity --dataset --target-price --from --catalogue --json'
    case $before in
    --catalogue) options= files=1 ;;
    --read-load | --write-load | --write-size | --write-time | --target-rate | --stored | --target-capacity | --dataset | --target-price | --from) options= files= ;;
    esac
    ;;
  "stoker plan stall")
    options='-h --help --gpus --price --stall --times --stalls --time --busy --busy-after --from --catalogue --json'
    case $before in
    --catalogue) options= files=1 ;;
    --gpus | --price | --stall | --times | --stalls | --time | --busy | --busy-after | --from) options= files= ;;
    esac
    ;;
  "stoker plan cluster")
    options='-h --help --example --gpus --gpus-per-node --batch --sample --decoded --step --depth --dataset --parameters --bytes-per-parameter --interval --gpu-mtbf --restart --life --link-rate --price --memory-capacity --cache-read-rate --cache-write-rate --cache-capacity --cache-tbw --cache-checkpoints --cache-write-time --cache-drive-price --filesystem-target-rate --filesystem-target-capacity --filesystem-checkpoints --filesystem-write-time --filesystem-target-price --objects-fill-time --objects-request --objects-request-rate --objects-storage-price --objects-get-price --from --measure --catalogue --json'
    files=1
    case $before in
    --measure | --catalogue) options= files=1 ;;
    --gpus | --gpus-per-node | --batch | --sample | --decoded | --step | --depth | --dataset | --parameters | --bytes-per-parameter | --interval | --gpu-mtbf | --restart | --life | --link-rate | --price | --memory-capacity | --cache-read-rate | --cache-write-rate | --cache-capacity | --cache-tbw | --cache-checkpoints | --cache-write-time | --cache-drive-price | --filesystem-target-rate | --filesystem-target-capacity | --filesystem-checkpoints | --filesystem-write-time | --filesystem-target-price | --objects-fill-time | --objects-request | --objects-request-rate | --objects-storage-price | --objects-get-price | --from) options= files= ;;
    esac
    ;;
  "stoker plan epoch")
    options='-h --help --samples --sample --dataset --time --rate --gpus --from --catalogue --json'
    case $before in
    --catalogue) options= files=1 ;;
    --samples | --sample | --dataset | --time | --rate | --gpus | --from) options= files= ;;
    esac
    ;;
  "stoker plan raid")
    options='-h --help --drives --read-rate --slowest-rate --shared-rate --stripe --request --yearly-failures --from --measure --catalogue --json'
    case $before in
    --measure | --catalogue) options= files=1 ;;
    --drives | --read-rate | --slowest-rate | --shared-rate | --stripe | --request | --yearly-failures | --from) options= files= ;;
    esac
    ;;
  "stoker plan share")
    options='-h --help --targets --target-rate --clients --stripes --nic-rate --from --catalogue --json'
    case $before in
    --catalogue) options= files=1 ;;
    --targets | --target-rate | --clients | --stripes | --nic-rate | --from) options= files= ;;
    esac
    ;;
  "stoker plan path")
    options='-h --help --lanes --transfers --payload-bits --frame-bits --storage-rate --nic-rate --fabric-rate --memory-rate --from --catalogue --json'
    case $before in
    --catalogue) options= files=1 ;;
    --lanes | --transfers | --payload-bits | --frame-bits | --storage-rate | --nic-rate | --fabric-rate | --memory-rate | --from) options= files= ;;
    esac
    ;;
  "stoker plan objects")
    options='-h --help --dataset --object --request --rate --epochs --request-rate --prefix-gets --get-price --put-price --storage-price --transfer-price --from --catalogue --json'
    case $before in
    --catalogue) options= files=1 ;;
    --dataset | --object | --request | --rate | --epochs | --request-rate | --prefix-gets | --get-price | --put-price | --storage-price | --transfer-price | --from) options= files= ;;
    esac
    ;;
  "stoker plan iops")
    options='-h --help --rate --request --latency --read-iops --files --file-operations --metadata-rate --from --measure --catalogue --json'
    case $before in
    --measure | --catalogue) options= files=1 ;;
    --rate | --request | --latency | --read-iops | --files | --file-operations | --metadata-rate | --from) options= files= ;;
    esac
    ;;
  "stoker plan prefetch")
    options='-h --help --depth --batch --decoded --workers --processes --memory --from --catalogue --json'
    case $before in
    --catalogue) options= files=1 ;;
    --depth | --batch | --decoded | --workers | --processes | --memory | --from) options= files= ;;
    esac
    ;;
  "stoker plan rule")
    options='-h --help --flops --gpus --read-rate --needed --from --measure --catalogue --json'
    case $before in
    --measure | --catalogue) options= files=1 ;;
    --flops | --gpus | --read-rate | --needed | --from) options= files= ;;
    esac
    ;;
  "stoker plan tracking")
    options='-h --help --runs --metrics --steps --every --point --artifacts --artifact --time --storage-price --from --catalogue --json'
    case $before in
    --catalogue) options= files=1 ;;
    --runs | --metrics | --steps | --every | --point | --artifacts | --artifact | --time | --storage-price | --from) options= files= ;;
    esac
    ;;
  "stoker plan devices")
    options='-h --help --catalogue --print --json'
    case $before in
    --catalogue) options= files=1 ;;
    esac
    ;;
  "stoker stage")
    options='-h --help --format --dtype -v --verbose --cache --cache-size --json'
    files=1
    case $before in
    --cache) options= files=1 ;;
    --format | --dtype | --cache-size) options= files= ;;
    esac
    ;;
  "stoker stats")
    options='-h --help --format --dtype -v --verbose --limit --json'
    files=1
    case $before in
    --format | --dtype | --limit) options= files= ;;
    esac
    ;;
  "stoker stream")
    options='-h --help --format --dtype -v --verbose --batch-size --global-batch-size --shuffle --seed --tail --rank --world-size --step-ms --memory --engine --window --stride --extra --pack --threads --depth --policy --cache --cache-size --epochs --max-batches --print-keys --cursor-file --cursor-every --allow --json'
    files=1
    case $before in
    --cache | --cursor-file) options= files=1 ;;
    --format | --dtype | --batch-size | --global-batch-size | --shuffle | --seed | --tail | --rank | --world-size | --step-ms | --memory | --engine | --window | --stride | --extra | --pack | --threads | --depth | --policy | --cache-size | --epochs | --max-batches | --cursor-every | --allow) options= files= ;;
    esac
    ;;
  "stoker tune")
    options='-h --help --format --dtype -v --verbose --batch-size --global-batch-size --shuffle --seed --tail --rank --world-size --step-ms --memory --engine --time --cold --json'
    files=1
    case $before in
    --format | --dtype | --batch-size | --global-batch-size | --shuffle | --seed | --tail | --rank | --world-size | --step-ms | --memory | --engine | --time) options= files= ;;
    esac
    ;;
  "stoker verify")
    options='-h --help --format --dtype --threads --json'
    files=1
    case $before in
    --format | --dtype | --threads) options= files= ;;
    esac
    ;;
  esac
  [[ $word == -* || -z $words$files ]] || options=
  COMPREPLY=($(compgen -W "$words $options" -- "$word"))
  if [[ $files && ${#COMPREPLY[@]} == 0 ]]; then compopt -o default; fi
}
complete -F _stoker stoker
