use super::*;

settings! {
    /// Makes something.
    struct Made in [maker] {
        /// Where it is.
        at: Option<String> => "nowhere",
        /// Its directory.
        directory: PathBuf = "made".into(),
    }
}

settings! {
    /// Takes something.
    struct Taken in [taker] {
        /// Where from.
        from: Option<String> => "nowhere",
        /// How much.
        count: u64 [1..=9] = 1,
        /// Its directory.
        directory: PathBuf = "taken".into(),
    }
}

struct Maker(Joints);
struct Taker(Joints);

impl ConfigFile for Maker {
    const SECTIONS: Sections = &[Made::SECTION];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (made, _) = document.one::<Made>();
        Some(Self(Joints {
            listens: made.at.into_iter().collect(),
            ..Joints::default()
        }))
    }
}

impl ConfigFile for Taker {
    const SECTIONS: Sections = &[Taken::SECTION];

    fn of(document: &Document<'_>) -> Option<Self> {
        let (taken, _) = document.one::<Taken>();
        Some(Self(Joints {
            connects: taken.from.into_iter().collect(),
            ..Joints::default()
        }))
    }
}

impl Member for Maker {
    const KIND: &'static str = "maker";
    const DIRECTORY: &'static str = "maker.directory";

    fn joints(&self) -> Joints {
        self.0.clone()
    }
}

impl Member for Taker {
    const KIND: &'static str = "taker";
    const DIRECTORY: &'static str = "taker.directory";

    fn joints(&self) -> Joints {
        self.0.clone()
    }
}

const KINDS: &[Kind] = &[Kind::of::<Maker>(), Kind::of::<Taker>()];

fn read(text: &str) -> Result<Chain, String> {
    let source = Source::of_text("chain.toml", text);
    let read = Chain::of(Path::new("chain.toml"), &source, KINDS);
    read.map_err(|mistakes| mistakes.to_string())
}

const GOOD: &str = "[chain]\nduration_s = 5\n[members.z]\nkind = \"maker\"\n[members.z.maker]\nat = \"here\"\n\
                    [members.a]\nkind = \"taker\"\n[members.a.taker]\nfrom = \"here\"\n";

#[test]
fn members_are_joined_by_equal_addresses() {
    let chain = read(GOOD).unwrap();
    let names: Vec<&str> = chain.members.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["z", "a"], "as in the file");
    let inputs = chain.members.iter().map(|one| chain.has_input(one));
    assert_eq!(inputs.collect::<Vec<_>>(), [false, true]);
    assert_eq!(chain.open_ends(), []);
    let open = read(&GOOD.replace("at = \"here\"", "at = \"there\"")).unwrap();
    assert_eq!(open.open_ends(), [("a", "here")]);
    assert!(!open.has_input(&open.members[1]));
    assert!(is_chain(GOOD) && !is_chain("[maker]\nat = \"here\"\n"));
}

#[test]
fn mistakes_of_the_chain_and_of_its_members_are_told_with_their_places() {
    for (text, told) in [
        ("[chain]\n", "chain.toml:1:2: chain: it has no member"),
        (
            "[members.a]\n",
            "chain.toml:1:10: members.a: it does not say what it is",
        ),
        (
            "[members.a]\nkind = \"makr\"\n",
            "chain.toml:2:8: members.a.kind = \"makr\": there is no such kind\n  2 | kind = \"makr\"\n    |        ^^^^^^\n  right:  \"maker\" or \"taker\"\n  remedy: did you mean \"maker\"?",
        ),
        ("members = 7\n", "members: it is no section"),
        (
            "[members]\na = 7\n",
            "chain.toml:2:1: members.a: it is no section",
        ),
        (
            "[members.\"a b\"]\nkind = \"maker\"\n",
            "members.a b: ' ' cannot stand in a name",
        ),
        (
            "[members.a]\nkind = \"taker\"\n[members.a.taker]\ncount = 12\n",
            "chain.toml:4:9: members.a.taker.count = 12: it is too large",
        ),
        (
            "[members.a]\nkind = \"taker\"\n[members.a.maker]\nat = \"x\"\n",
            "maker: there is no such section",
        ),
        (
            "[members.a]\nkind = \"maker\"\nmaker.at = \"x\"\n[members.b]\nkind = \"maker\"\nmaker.at = \"x\"\n",
            "chain.toml:4:10: members.b: a listens at x already",
        ),
        (
            "[chain]\nduration_s = 0\n[members.a]\nkind = \"taker\"\n[members.a.taker]\ncount = 0\n",
            "2 mistakes",
        ),
    ] {
        let found = read(text).map(|_| ()).unwrap_err();
        assert!(found.contains(told), "{text}: {found}");
    }
}

#[test]
fn one_member_is_read_alone_and_keys_of_the_command_line_are_its_own() {
    let source = Source::of_text("chain.toml", GOOD);
    let said = ["maker.at=there".to_owned()];
    let maker = config::read::<Maker>(&source.clone().only(Some("z")).with(&said)).unwrap();
    assert_eq!(maker.0.listens, ["there"]);
    let nobody = config::read::<Maker>(&source.only(Some("b"))).map(|_| ());
    let told = nobody.unwrap_err().to_string();
    assert!(
        told.contains("members.b: the file has no such member"),
        "{told}"
    );
    assert!(told.contains("right:  a, z"), "{told}");
}
