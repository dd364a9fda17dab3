//! The nearest of some known words, for those who mistyped.

/// The known word that `word` was probably meant to be: at most a third of its letters differ.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().take(64).collect();
    let limit = (word.len() / 3).max(1);
    let distances = known.map(|other| (distance(&word, &other.chars().collect::<Vec<_>>()), other));
    let near = distances.filter(|(distance, _)| *distance <= limit);
    near.min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}

/// Letters to change, add, take away or swap with their neighbour (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_mended_and_nonsense_is_not() {
        let known = ["socket_buffer_bytes", "queue_bytes", "cpu"];
        let near = |word| nearest(word, known.into_iter());
        assert_eq!(near("socket_bufer_bytes"), Some("socket_buffer_bytes"));
        assert_eq!(near("queue_byte"), Some("queue_bytes"));
        assert_eq!(near("CUP"), Some("cpu"));
        assert_eq!(near("gibberish"), None);
        assert_eq!(near(""), None);
    }
}
