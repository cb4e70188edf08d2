# Joins, for one architecture, the kernels' names, what ptxas says, the cubin's sections and the PTX; see measure in
# ptxas.sh.
function hex(digits, i, n) {
  n = 0
  for (i = 1; i <= length(digits); ++i) n = 16 * n + index("0123456789abcdef", tolower(substr(digits, i, 1))) - 1
  return n
}
# "void tuck::v1::encode_kernel<tuck::v1::batch_job<tuck::v1::encode_job<tuck::v1::zvc<float> > >, 128>(...)" to
# "encode_batch zvc f32"
function short(name, i, n, word, words) {
  # The pass of a kernel that decodes deltas, an enumerator, becomes part of the name.
  if (sub(/, \([A-Za-z_0-9:]+\)0/, "", name)) sub(/decode_kernel/, "verify_kernel", name)
  else if (sub(/, \([A-Za-z_0-9:]+\)1/, "", name)) sub(/decode_kernel/, "apply_kernel", name)
  else sub(/, \([A-Za-z_0-9:]+\)2/, "", name)
  sub(/\(.*/, "", name)
  sub(/^void /, "", name)
  gsub(/[A-Za-z_0-9]+::/, "", name)
  # The job becomes a part of it too.
  if (sub(/(en|de)code_delta_job/, "", name)) sub(/_kernel/, "_delta_kernel", name)
  sub(/((en|de)code|prepass|statistics)_job/, "", name)
  sub(/, (known_zero|unsigned long)/, "", name)
  if (sub(/batch_job/, "", name)) sub(/_kernel/, "_batch_kernel", name)
  sub(/_kernel/, "", name)
  sub(/(, |<)128>$/, "", name)
  for (i = 1; i <= 8; i *= 2) gsub("untyped<" i "u> ?", "any" i, name)
  gsub(/unsigned /, "unsigned_", name)
  gsub(/signed char/, "signed_char", name)
  gsub(/[<>, ]+/, " ", name)
  n = split(name, words, " ")
  name = ""
  for (i = 1; i <= n; ++i) {
    word = words[i] in type ? type[words[i]] : words[i]
    name = name (i == 1 ? "" : " ") word
  }
  return name
}
BEGIN {
  type["unsigned_char"] = "u8"; type["signed_char"] = "i8"; type["unsigned_short"] = "u16"; type["short"] = "i16"
  type["unsigned_int"] = "u32"; type["int"] = "i32"; type["unsigned_long"] = "u64"; type["long"] = "i64"
  type["float"] = "f32"; type["double"] = "f64"
}
FNR == 1 { ++file }

file == 1 {  # mangled|demangled
  split($0, pair, "|")
  name[pair[1]] = short(pair[2])
}

file == 2 && /Function properties for/ { kernel = $NF }
file == 2 && /bytes stack frame/ { stack[kernel] += $1; spilled[kernel] += $5 + $9 }
file == 2 && /Used [0-9]+ registers/ {
  for (i = 2; i <= NF; ++i) {
    if ($i ~ /^registers/) registers[kernel] = $(i - 1)
    if ($i ~ /^smem/) shared[kernel] = $(i - 2)
  }
}

file == 3 { instructions[$2] = int(hex($6) / 16) }  # "text" name type address offset size

file == 4 && /\.entry/ { kernel = $0; sub(/.*\.entry /, "", kernel); sub(/[( ].*/, "", kernel); loops = divided = 0 }
file == 4 && /\.func/ { kernel = "" }
file == 4 && kernel != "" {
  op = $1 ~ /^@/ ? $2 : $1
  if ($0 ~ /\.local/) ++local[kernel]
  if (op ~ /\.f64/) ++doubles[kernel]
  if (op ~ /^[a-z]/) ++ptx[kernel]
  if (op ~ /^(div|rem)\./) { ++divisions[kernel]; division[++divided] = ptx[kernel] }
  # A branch back to a label is a loop.
  if (op ~ /^\$L.*:/) { label = op; sub(/:.*/, "", label); at[label] = ptx[kernel] }
  if (op ~ /^bra/) {
    label = $NF
    sub(/;/, "", label)
    if (label in at) { begin[++loops] = at[label]; end[loops] = ptx[kernel] }
  }
  if (op ~ (name[kernel] ~ /^encode/ ? "^st[.]global.*[.]v4" : "^ld[.]global.*[.]v4")) ++vectors[kernel]
}
file == 4 && /^}/ && kernel != "" {
  for (d = 1; d <= divided; ++d) {
    inside = 0
    for (l = 1; l <= loops; ++l) if (division[d] > begin[l] && division[d] <= end[l]) inside = 1
    looped[kernel] += inside
  }
}

END {
  for (kernel in stack)
    if (!(kernel in name)) { print "not inlined: " kernel >"/dev/stderr"; bad = 1 }
  for (kernel in name)
    print arch "|" name[kernel] "|" registers[kernel] "|" shared[kernel] + 0 "|" instructions[kernel] "|" \
          divisions[kernel] + 0 "|" stack[kernel] "|" spilled[kernel] "|" local[kernel] + 0 "|" \
          doubles[kernel] + 0 "|" vectors[kernel] + 0 "|" looped[kernel] + 0 "|" \
          sprintf("%.2f", ptx[kernel] ? instructions[kernel] / ptx[kernel] : 0)
  exit bad
}
