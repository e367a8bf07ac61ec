/**
 * Folds a name to one spelling for all that some file system treats as equal: letter case, composed or decomposed, wide
 * or narrow, with invisible characters.
 */
export function foldName(text: string): string {
  if (/^[\x20-\x7e]*$/.test(text)) return text.toLowerCase();
  return text
    .normalize('NFKD')
    .replace(/\p{Default_Ignorable_Code_Point}/gu, '')
    .toUpperCase()
    .toLowerCase()
    .normalize('NFKC');
}
