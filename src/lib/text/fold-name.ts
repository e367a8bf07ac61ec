/**
 * One spelling for all that some file system takes for the same name: case, composed or not, wide or narrow, with
 * characters that nobody sees.
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
