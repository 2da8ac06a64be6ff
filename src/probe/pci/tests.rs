use super::*;
use crate::probe::testing::{known, run};

struct Function<'a> {
    name: &'a str,
    class: &'a str,
    id: (&'a str, &'a str),
    driver: Option<&'a str>,
    rdma: bool,
    physfn: bool,
    config: &'a str,
}

fn lines_of(functions: &[Function<'_>]) -> Vec<String> {
    let names: Vec<String> = functions.iter().map(|f| format!("{:?}", f.name)).collect();
    let mut lines = vec![format!(
        r#"{{"q":{{"list":"{DEVICES}"}},"names":[{}]}}"#,
        names.join(",")
    )];
    for f in functions {
        let dir = format!("{DEVICES}/{}", f.name);
        let mut names = vec!["class", "config", "device", "vendor"];
        for (file, text) in [("class", f.class), ("vendor", f.id.0), ("device", f.id.1)] {
            lines.push(format!(
                r#"{{"q":{{"read":"{dir}/{file}"}},"text":"{text}\n"}}"#
            ));
        }
        lines.push(format!(
            r#"{{"q":{{"read":"{dir}/config"}},"hex":"{}"}}"#,
            f.config
        ));
        match f.driver {
            Some(driver) => {
                names.push("driver");
                lines.push(format!(r#"{{"q":{{"link":"{dir}/driver"}},"text":"../../../bus/pci/drivers/{driver}"}}"#));
            }
            None => lines.push(format!(
                r#"{{"q":{{"link":"{dir}/driver"}},"errno":"ENOENT"}}"#
            )),
        }
        if f.rdma {
            names.push("infiniband");
            lines.push(format!(
                r#"{{"q":{{"list":"{dir}/infiniband"}},"names":["mlx5_0"]}}"#
            ));
        } else {
            lines.push(format!(
                r#"{{"q":{{"list":"{dir}/infiniband"}},"errno":"ENOENT"}}"#
            ));
        }
        if f.physfn {
            names.push("physfn");
            lines.push(format!(
                r#"{{"q":{{"link":"{dir}/physfn"}},"text":"../0000:0c:00.0"}}"#
            ));
        } else {
            lines.push(format!(
                r#"{{"q":{{"link":"{dir}/physfn"}},"errno":"ENOENT"}}"#
            ));
        }
        let names: Vec<String> = names.iter().map(|n| format!("{n:?}")).collect();
        lines.push(format!(
            r#"{{"q":{{"list":"{dir}"}},"names":[{}]}}"#,
            names.join(",")
        ));
    }
    lines
}

const PLAIN: Function<'static> = Function {
    name: "0000:0c:00.0",
    class: "0x020700",
    id: ("0x15b3", "0x1021"),
    driver: Some("mlx5_core"),
    rdma: true,
    physfn: false,
    config: "b3152110",
};

fn facts_of(functions: &[Function<'_>]) -> (Facts, Id) {
    let lines = lines_of(functions);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    run(&PROBE, &lines)
}

#[test]
fn an_adapter_among_other_functions() {
    let other = |name, class, vendor, driver| Function {
        name,
        class,
        id: (vendor, "0x1234"),
        driver: Some(driver),
        rdma: false,
        ..PLAIN
    };
    let (facts, node) = facts_of(&[
        PLAIN,
        other("0000:00:01.0", "0x060400", "0x1022", "pcieport"),
        other("0000:01:00.0", "0x020000", "0x8086", "ice"),
        other("0000:02:00.0", "0x020800", "0x8086", "hfi1"),
    ]);
    assert!(facts.members(Subject::Function, node).is_ok());
    let names: Vec<&str> = facts
        .all(Subject::Function)
        .map(|id| facts.name(id))
        .collect();
    assert_eq!(names, ["0000:0c:00.0", "0000:02:00.0"]);
    let name = "0000:0c:00.0";
    let flag = |key| known(&facts, Subject::Function, name, key);
    assert_eq!(
        known(&facts, Subject::Function, name, function::CLASS),
        Some(PciClass::InfiniBand)
    );
    assert_eq!(
        known(&facts, Subject::Function, name, function::ID).as_deref(),
        Some("15b3:1021")
    );
    assert_eq!(
        known(&facts, Subject::Function, name, function::DRIVER).as_deref(),
        Some("mlx5_core")
    );
    assert_eq!(flag(function::BOUND), Some(true));
    assert_eq!(flag(function::RDMA), Some(true));
    assert_eq!(flag(function::ON_BUS), Some(true));
    assert_eq!(flag(function::VIRTUAL_FUNCTION), Some(false));
    assert_eq!(flag(function::PASSED_THROUGH), Some(false));
    assert_eq!(flag(function::RDMA_EXPECTED), Some(true));
    assert_eq!(
        known(
            &facts,
            Subject::Function,
            "0000:02:00.0",
            function::RDMA_EXPECTED
        ),
        Some(true)
    );
    assert_eq!(
        known(&facts, Subject::Function, "0000:02:00.0", function::RDMA),
        Some(false)
    );
}

#[test]
fn a_function_that_fell_off_and_others_that_lack_a_driver() {
    let (facts, _) = facts_of(&[
        Function {
            config: "ffffffff",
            ..PLAIN
        },
        Function {
            name: "0000:0d:00.0",
            driver: None,
            rdma: false,
            class: "0x020000",
            ..PLAIN
        },
        Function {
            name: "0000:0e:00.0",
            driver: Some("vfio-pci"),
            rdma: false,
            ..PLAIN
        },
    ]);
    assert_eq!(
        known(&facts, Subject::Function, "0000:0c:00.0", function::ON_BUS),
        Some(false)
    );
    let name = "0000:0d:00.0";
    assert_eq!(
        known(&facts, Subject::Function, name, function::BOUND),
        Some(false)
    );
    assert_eq!(
        known(&facts, Subject::Function, name, function::DRIVER).as_deref(),
        Some("none")
    );
    assert_eq!(
        known(&facts, Subject::Function, name, function::RDMA_EXPECTED),
        Some(false)
    );
    assert_eq!(
        known(
            &facts,
            Subject::Function,
            "0000:0e:00.0",
            function::PASSED_THROUGH
        ),
        Some(true)
    );
}

#[test]
fn a_virtual_function_by_its_link_or_by_its_id() {
    let ethernet = Function {
        class: "0x020000",
        rdma: false,
        ..PLAIN
    };
    for (physfn, device, expected) in [
        (true, "0x101e", true),
        (false, "0x101e", true),
        (false, "0x101d", false),
    ] {
        let (facts, _) = facts_of(&[Function {
            physfn,
            id: ("0x15b3", device),
            ..ethernet
        }]);
        let name = ethernet.name;
        assert_eq!(
            known(&facts, Subject::Function, name, function::VIRTUAL_FUNCTION),
            Some(expected)
        );
        assert_eq!(
            known(&facts, Subject::Function, name, function::RDMA_EXPECTED),
            Some(!expected)
        );
    }
}

#[test]
fn a_virtual_function_answers_though_its_ids_read_as_ones() {
    // An igb's virtual function, as a read of its file began: both ids are ones, command, status and class are not.
    for (config, expected) in [
        ("ffffffff0400100001000002", true),
        ("ffffffffffffffffffffffff", false),
    ] {
        let (facts, _) = facts_of(&[Function {
            physfn: true,
            config,
            ..PLAIN
        }]);
        let name = PLAIN.name;
        assert_eq!(
            known(&facts, Subject::Function, name, function::ON_BUS),
            Some(expected)
        );
    }
}

#[test]
fn a_function_without_a_class_leaves_the_functions_open() {
    let lines = lines_of(&[PLAIN]);
    let lines: Vec<&str> = lines
        .iter()
        .map(String::as_str)
        .filter(|l| !l.contains("/class"))
        .collect();
    let (facts, node) = run(&PROBE, &lines);
    assert!(facts.members(Subject::Function, node).is_err());
    assert_eq!(facts.all(Subject::Function).count(), 0);
}
