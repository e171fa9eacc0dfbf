/** Names of what objects do to their disks, as steps of a protocol: faults are counted by them, and each of them is to be met. */

/** By text. Texts differ by the numbers of tables, of which a run has few. */
const names = new Map<string, string>();

/** What a statement does to which table, without numbers: `INSERT INTO journal`, `UPDATE shard SET generation`. */
export function stepOf(query: string): string {
  let name = names.get(query);
  if (name === undefined) {
    const text = query.trim().replaceAll(/_\d+/g, "");
    names.set(
      query,
      (name = /^[\w ,*]*?(?= (?:WHERE|ORDER|VALUES|LIMIT)\b| ?[^\w ,*]|$)/.exec(text)![0]),
    );
  }
  return name;
}
