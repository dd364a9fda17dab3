//! What a control group leaves this process of the host's memory (`Documentation/admin-guide/cgroup-v2.rst`, `cgroup-v1/memory.rst`).

use std::fs;
use std::path::Path;

/// Where hierarchies are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// The least limit of memory of this process's control group and of those above it, in bytes; none where there is no limit, or it cannot be read.
#[must_use]
pub fn memory_limit_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_in(Path::new(ROOT), &groups)
}

/// The same by the text of `/proc/self/cgroup`, with hierarchies under `root`.
fn limit_in(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let is_memory = controllers.split(',').any(|name| name == "memory");
        let (hierarchy, file) = match controllers {
            "" => (root.to_path_buf(), "memory.max"),
            _ if is_memory => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let group = hierarchy.join(group.trim_start_matches('/'));
        let above = group
            .ancestors()
            .take_while(|dir| dir.starts_with(&hierarchy));
        above.filter_map(|dir| limit_of(&dir.join(file))).min()
    });
    limits.min()
}

/// `max` is no limit, and neither is a number that no host has (version 1 says it so).
fn limit_of(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let bytes = text.trim().parse().ok()?;
    (bytes < i64::MAX as u64 - (1 << 30)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of a hierarchy.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        let root = tree(&[
            ("memory.max", "max\n"),
            ("slice/memory.max", "2000000\n"),
            ("slice/service/memory.max", "3000000\n"),
            ("other/memory.max", "5\n"),
        ]);
        let of = |groups: &str| limit_in(root.path(), groups);
        assert_eq!(of("0::/slice/service\n"), Some(2_000_000));
        assert_eq!(of("0::/slice/service/not_there\n"), Some(2_000_000));
        assert_eq!(of("0::/\n"), None);
        // A group out of the namespace that is seen here is not looked for elsewhere.
        assert_eq!(of("0::/../other\n"), None);
        assert_eq!(of("junk\n\n:\n"), None);
    }

    #[test]
    fn version_1_has_a_hierarchy_of_its_own() {
        let root = tree(&[
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/box/memory.limit_in_bytes", "1000000\n"),
        ]);
        let of = |groups: &str| limit_in(root.path(), groups);
        assert_eq!(of("5:devices:/\n4:memory:/box\n0::/\n"), Some(1_000_000));
        assert_eq!(of("4:cpu,memory:/\n"), None);
        assert_eq!(of("3:cpuset:/box\n"), None);
    }
}
