# has_lines.sh PAGE PROGRAM...: each line that the program prints is a line of the page.
page=$1
shift
lines=$("$@") && [ -n "$lines" ] || { echo "$* prints nothing"; exit 1; }
echo "$lines" | while IFS= read -r line; do
  grep -qFx -- "$line" "$page" || { echo "$page lacks: $line"; exit 1; }
done
