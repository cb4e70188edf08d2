# Of the weak symbols in the second file, those from which relocations, as `objdump -rw` lists them in the first, lead
# to a kernel, which its name says. Each function and constant is in a section of its own, which bears its name.
function name_of(text) {
  if (!match(text, /_Z[A-Za-z0-9_.]*/)) return ""
  return substr(text, RSTART, RLENGTH)
}
FNR == 1 { ++file }
file == 1 && /^RELOCATION RECORDS FOR/ { from = name_of($4) }
file == 1 && /R_[A-Z0-9_]*_/ && from != "" {
  to = name_of($3)
  if (to ~ /_kernelI/) leads[from] = leads[to] = 1
  else if (to != "") { source[++edges] = from; target[edges] = to }
}
file == 2 { weak[$1] = 1 }
END {
  do {
    more = 0
    for (i = 1; i <= edges; ++i)
      if (target[i] in leads && !(source[i] in leads)) more = leads[source[i]] = 1
  } while (more)
  for (name in leads) if (name in weak) print name
}
